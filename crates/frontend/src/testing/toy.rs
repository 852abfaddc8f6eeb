use std::collections::BTreeMap;

use serde_json::{Value, json};
use tito_engine::fake;
use tito_formats::{
    BindContext, Bound, Exchange, Format, NotMigratable, Refusal, RefusalKind, Segments, Usage,
};
use tito_types::{Delivery, Delta, EngineError, GenerateRequest, RequestId};

/// A format small enough to see through: `{"prompts": [[1, 2]], "stream": false, "request_id": …, "ignored": […]}`.
/// A whole reply has the tokens of its one choice, or those of each choice under its number.
pub(crate) struct Toy;

/// A token that the format panics on when it frames it.
pub(crate) const PANIC: u32 = u32::MAX - 1;

impl Format for Toy {
    fn bind(&self, body: &[u8], context: &BindContext<'_>) -> Result<Bound, Refusal> {
        let refuse = |kind, param: &str, message: &str| Refusal {
            kind,
            param: Some(param.to_owned()),
            message: message.to_owned(),
        };
        let body: Value = serde_json::from_slice(body).map_err(|error| Refusal {
            kind: RefusalKind::BadJson,
            param: None,
            message: error.to_string(),
        })?;
        assert_ne!(body["panic"], true, "the body asks for it");
        let stream = body["stream"] == true;
        let prompts = body["prompts"].as_array().cloned().unwrap_or_else(|| vec![json!([1, 2, 3])]);
        if prompts.is_empty() {
            return Err(refuse(RefusalKind::Invalid, "prompts", "must hold at least one prompt"));
        }
        let body_id =
            body["request_id"].as_str().map(|id| RequestId::parse(id).expect("tests send good ids"));
        let id = context.header_id.clone().or(body_id).unwrap_or_else(|| context.fresh_id.clone());
        let requests = prompts
            .iter()
            .map(|prompt| request(prompt, &id, context, stream))
            .collect::<Result<Vec<_>, _>>()?;
        let ignored = body["ignored"].as_array().cloned().unwrap_or_default();
        Ok(Bound {
            requests,
            exchange: Box::new(ToyExchange { id: id.clone(), ..ToyExchange::default() }),
            id,
            stream,
            migration: Err(NotMigratable::SeveralChoices),
            ignored: ignored.iter().map(|path| path.as_str().unwrap().to_owned()).collect(),
        })
    }
}

fn request(
    prompt: &Value,
    id: &RequestId,
    context: &BindContext<'_>,
    stream: bool,
) -> Result<GenerateRequest, Refusal> {
    let tokens = prompt.as_array().and_then(|tokens| {
        tokens.iter().map(|token| u32::try_from(token.as_u64()?).ok()).collect::<Option<Vec<_>>>()
    });
    let tokens = tokens.ok_or_else(|| Refusal {
        kind: RefusalKind::Invalid,
        param: Some("prompts[0]".to_owned()),
        message: "must be token ids".to_owned(),
    })?;
    Ok(GenerateRequest {
        id: id.clone(),
        model: context.catalog.models[0].names[0].clone(),
        session: context.session.map(str::to_owned),
        rank: context.rank,
        worker: context.worker.cloned(),
        delivery: if stream { Delivery::Deltas } else { Delivery::Whole },
        ..fake::request(&tokens)
    })
}

struct ToyExchange {
    id: RequestId,
    /// By choice.
    tokens: BTreeMap<u32, Vec<u32>>,
    blob: Option<String>,
    usage: Usage,
}

impl Default for ToyExchange {
    fn default() -> Self {
        let id = RequestId::parse("none").unwrap();
        Self { id, tokens: BTreeMap::new(), blob: None, usage: Usage::default() }
    }
}

impl ToyExchange {
    fn book(&mut self, delta: &Delta) {
        self.usage.completion_tokens += delta.token_ids.len() as u64;
        self.usage.prompt_tokens = 3;
        if let Some(finish) = &delta.finish {
            self.usage.cached_tokens = finish.cached_tokens.map(u64::from);
        }
    }
}

impl Exchange for ToyExchange {
    fn fold(&mut self, delta: Delta) -> Result<(), EngineError> {
        self.book(&delta);
        self.tokens.entry(delta.index).or_default().extend(&delta.token_ids);
        if let Some(finish) = delta.finish {
            self.blob = finish.extras.routed_experts.map(tito_types::RawJson::into_string);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Segments, EngineError> {
        let mut out = Segments::default();
        let tokens = match self.tokens.get(&0) {
            Some(only) if self.tokens.len() == 1 => json!(only),
            _ => json!(self.tokens),
        };
        let head = json!({ "request_id": self.id.as_str(), "tokens": tokens }).to_string();
        out.tail().extend_from_slice(head.strip_suffix('}').expect("an object").as_bytes());
        if let Some(blob) = self.blob.take() {
            out.tail().extend_from_slice(b",\"routed_experts\":");
            out.append(blob.into_bytes());
        }
        out.tail().push(b'}');
        Ok(out)
    }

    fn frame(&mut self, delta: Delta, out: &mut Segments) -> Result<(), EngineError> {
        self.book(&delta);
        if delta.token_ids.contains(&u32::MAX) {
            return Err(EngineError::Protocol("a token that no vocabulary has".to_owned()));
        }
        assert!(!delta.token_ids.contains(&PANIC), "the token asks for it");
        out.tail().extend_from_slice(format!("data: {:?}\n\n", delta.token_ids).as_bytes());
        Ok(())
    }

    fn close(&mut self, out: &mut Segments) {
        out.tail().extend_from_slice(b"data: [DONE]\n\n");
    }

    fn usage(&self) -> Usage {
        self.usage
    }
}
