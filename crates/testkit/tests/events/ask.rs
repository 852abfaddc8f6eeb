//! One prompt, as an engine is asked for it and as the index looks it up.

use std::sync::Arc;

use tito_engine::fake;
use tito_kv_index::{Generations, Hasher, Prompt};
use tito_types::{Delivery, KvOptions, Media, MediaFeatures, Modality, Sampling, Stopping};
use vllm_proto::generate_request::Prompt as Asked;
use vllm_proto::media_item::Source;
use vllm_proto::{
    GenerateRequest, KvCacheParameters, MediaItem, PreprocessedMediaFeatures, ResponseOptions,
    StoppingCriteria, TokenIds,
};

/// Tensors as the mock takes them: one named field of three bytes.
const KWARGS: &[u8] =
    b"\x81\xa1x\x82\xa4data\x93\xa5uint8\x91\x03\xc7\x03\x03\0\0\0\xa5field\x92\xa7batched\x81\xabkeep_on_cpu\xc3";

/// A prompt and everything that decides the identity of its blocks.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Ask {
    pub(crate) tokens: Vec<u32>,
    pub(crate) salt: Option<&'static str>,
    pub(crate) adapter: Option<&'static str>,
    /// By offset, disjoint.
    pub(crate) media: Vec<Item>,
    /// Output tokens.
    pub(crate) output: u32,
}

/// A media item in a prompt.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Item {
    pub(crate) modality: Modality,
    pub(crate) identifier: &'static str,
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

impl Ask {
    /// Text only, for one token of output.
    pub(crate) fn text(tokens: impl IntoIterator<Item = u32>) -> Self {
        Self { tokens: tokens.into_iter().collect(), output: 1, ..Self::default() }
    }

    pub(crate) fn request(&self) -> GenerateRequest {
        let (max_new_tokens, cache_salt) = (self.output, self.salt.map(str::to_owned));
        let salted = |cache_salt| KvCacheParameters { cache_salt, ..KvCacheParameters::default() };
        GenerateRequest {
            prompt: Some(Asked::TokenIds(TokenIds { ids: self.tokens.clone() })),
            temperature: Some(0.0),
            stopping: Some(StoppingCriteria { max_new_tokens, ignore_eos: true, ..Default::default() }),
            response: Some(ResponseOptions { output_token_ids: true, ..ResponseOptions::default() }),
            kv: cache_salt.map(salted),
            media: self.media.iter().map(Item::wire).collect(),
            lora_name: self.adapter.unwrap_or_default().to_owned(),
            ..GenerateRequest::default()
        }
    }

    /// The same for the layers that route it.
    pub(crate) fn routed(&self, delivery: Delivery) -> tito_types::GenerateRequest {
        tito_types::GenerateRequest {
            model: self.adapter.unwrap_or("mock").to_owned(),
            media: self.known_media(),
            sampling: Sampling { temperature: Some(0.0), ..Sampling::default() },
            stopping: Stopping { max_tokens: Some(self.output), ignore_eos: true, ..Stopping::default() },
            kv: KvOptions { cache_salt: self.salt.map(str::to_owned), ..KvOptions::default() },
            delivery,
            ..fake::request(&self.tokens)
        }
    }

    fn known_media(&self) -> Media {
        match self.media.as_slice() {
            [] => Media::None,
            items => Media::Features(items.iter().map(Item::features).collect()),
        }
    }

    /// Its blocks as an index knows them of an engine whose adapters were loaded so often.
    pub(crate) fn chain(&self, hasher: &Hasher, loads: &Generations, block_tokens: u32) -> Arc<[u64]> {
        let adapter = self.adapter.map(|name| (name, loads.of(name)));
        let (tokens, media, salt) = (&self.tokens, &self.known_media(), self.salt);
        Prompt { tokens, media, adapter, salt, block_tokens }.chain(hasher)
    }

    /// The same prompt with what the engine answered behind it: the next turn's beginning.
    pub(crate) fn continued(&self, output: &[u32]) -> Self {
        Self { tokens: [&self.tokens, output].concat(), ..self.clone() }
    }

    /// Prompts that differ from this one in one thing each.
    pub(crate) fn strangers(&self) -> Vec<Self> {
        let mut changed = self.clone();
        changed.tokens[0] ^= 1;
        let mut strangers = vec![
            Self { salt: if self.salt.is_some() { None } else { Some("another") }, ..self.clone() },
            Self { adapter: if self.adapter.is_some() { None } else { Some("ad1") }, ..self.clone() },
            changed,
        ];
        if let Some(item) = self.media.first() {
            let mut other = self.clone();
            other.media[0].identifier = "never sent";
            strangers.extend([other, Self { media: Vec::new(), ..self.clone() }]);
            if item.length > 1 {
                let mut later = self.clone();
                (later.media[0].offset, later.media[0].length) = (item.offset + 1, item.length - 1);
                strangers.push(later);
            }
        }
        strangers
    }
}

impl Item {
    fn wire(&self) -> MediaItem {
        let modality = match self.modality {
            Modality::Image => vllm_proto::Modality::Image,
            Modality::Video => vllm_proto::Modality::Video,
            Modality::Audio => vllm_proto::Modality::Audio,
        };
        let features = PreprocessedMediaFeatures {
            kwargs: Some(KWARGS.to_vec()),
            identifier: self.identifier.to_owned(),
            offset: u64::from(self.offset),
            length: u64::from(self.length),
            ..PreprocessedMediaFeatures::default()
        };
        let source = Some(Source::Features(features));
        MediaItem { modality: modality as i32, source, ..MediaItem::default() }
    }

    fn features(&self) -> MediaFeatures {
        MediaFeatures {
            modality: self.modality,
            identifier: self.identifier.into(),
            offset: self.offset,
            length: self.length,
            is_embed: None,
            payload: Arc::from(KWARGS),
        }
    }
}
