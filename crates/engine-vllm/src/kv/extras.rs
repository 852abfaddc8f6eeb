//! The extra keys of stored blocks. vLLM publishes them without tags, in this order: adapter name, one pair per media
//! item, cache salt (first block of a sequence only), digests of prompt embeddings.

use std::sync::Arc;

use tito_types::{BlockExtras, MediaInBlock};

use crate::kv::msgpack::{Kind, Malformed, Reader};

const UNTAGGED: &str = "extra keys hold strings that tell no media offset";
const AMBIGUOUS: &str =
    "a string alone in the keys of a first block may be a salt or a media item without its offset";
const UNKNOWN: &str = "extra keys have an unknown shape";

/// What tells the blocks of one event apart beyond their tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Extras {
    pub salt: Option<Arc<str>>,
    /// Empty, or one entry per block.
    pub blocks: Vec<BlockExtras>,
    /// Why media cannot be identified by these keys.
    pub inexact: Option<&'static str>,
}

/// Reads the keys of `blocks` blocks; `starts` when the first one begins a sequence. Releases that wrote `positional` events
/// named media by a bare identifier at times (0.18), which alone in a first block looks like a salt; it is read as one, so
/// that no prompt with media matches it.
pub(crate) fn read(
    list: Option<Reader<'_>>,
    blocks: usize,
    adapter: Option<&str>,
    starts: bool,
    positional: bool,
) -> Result<Extras, Malformed> {
    let mut found = Extras::default();
    let Some(mut list) = list else { return Ok(found) };
    if list.array()? != blocks {
        return Err(Malformed);
    }
    for at in 0..blocks {
        if list.nil() {
            continue;
        }
        let keys = Keys::read(&mut list, adapter)?;
        let mut extras = BlockExtras { media: keys.media, opaque: keys.opaque };
        match (&keys.strings[..], at == 0 && starts) {
            ([], _) => {}
            ([salt], true) => {
                found.salt = Some(*salt).filter(|salt| !salt.is_empty()).map(Arc::from);
                found.inexact = (positional && found.salt.is_some()).then_some(AMBIGUOUS);
            }
            (strings, _) => {
                extras.opaque.extend(strings.iter().map(|string| string.as_bytes().to_vec()));
                found.inexact = Some(UNTAGGED);
            }
        }
        found.inexact = found.inexact.or(keys.inexact);
        if extras != BlockExtras::default() {
            if found.blocks.is_empty() {
                found.blocks = vec![BlockExtras::default(); blocks];
            }
            found.blocks[at] = extras;
        }
    }
    Ok(found)
}

/// The keys of one block, sorted by what they are.
#[derive(Default)]
struct Keys<'a> {
    media: Vec<MediaInBlock>,
    opaque: Vec<Vec<u8>>,
    /// All but the adapter's name.
    strings: Vec<&'a str>,
    inexact: Option<&'static str>,
}

impl<'a> Keys<'a> {
    fn read(list: &mut Reader<'a>, adapter: Option<&str>) -> Result<Self, Malformed> {
        let mut keys = Self::default();
        for at in 0..list.array()? {
            match list.kind() {
                Some(Kind::Str) => {
                    let string = list.str()?;
                    if at > 0 || adapter != Some(string) {
                        keys.strings.push(string);
                    }
                }
                Some(Kind::Bin) => keys.opaque.push(list.bin()?.to_vec()),
                Some(Kind::Nil | Kind::Int | Kind::Array | Kind::Map | Kind::Other) | None => {
                    let value = list.value()?;
                    if let Ok(item) = media(Reader::new(value)) {
                        keys.media.push(item);
                    } else {
                        keys.opaque.push(value.to_vec());
                        keys.inexact = Some(UNKNOWN);
                    }
                }
            }
        }
        Ok(keys)
    }
}

/// `[identifier, item start − block start]`.
fn media(mut pair: Reader<'_>) -> Result<MediaInBlock, Malformed> {
    if pair.array()? != 2 {
        return Err(Malformed);
    }
    let identifier = Arc::from(pair.str()?);
    let offset = i64::try_from(pair.int()?).map_err(|_| Malformed)?;
    Ok(MediaInBlock { identifier, offset })
}
