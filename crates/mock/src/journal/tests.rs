use std::sync::Arc;

use vllm_proto::media_item::Source;
use vllm_proto::{GenerateRequest, MediaItem};

use super::{AbortCause, Journal, JournalEntry, MEDIA_BYTES_MAX, PROMPT_TOKENS_MAX, RequestState, STATES};

fn entry(id: &str, prompt_tokens: u32, media_bytes: usize) -> Arc<JournalEntry> {
    let source = Some(Source::RawBytes(vec![0; media_bytes]));
    let media = vec![MediaItem { source, ..MediaItem::default() }];
    let request = Arc::new(GenerateRequest { media, ..GenerateRequest::default() });
    Arc::new(JournalEntry::new(id.to_owned(), String::new(), 0, prompt_tokens, request))
}

fn kept(journal: &Journal) -> Vec<String> {
    journal.entries().iter().map(|entry| entry.request_id.clone()).collect()
}

#[test]
fn the_oldest_go_when_there_are_too_many_or_they_or_their_media_are_too_large() {
    for (entries, prompt_tokens, media_bytes) in
        [(2, 1, 0), (10, PROMPT_TOKENS_MAX as u32 / 2, 0), (10, 1, MEDIA_BYTES_MAX / 2 - 100)]
    {
        let journal = Journal::new(entries);
        for id in ["a", "b", "c"] {
            journal.add(entry(id, prompt_tokens, media_bytes));
        }
        assert_eq!(kept(&journal), ["b", "c"]);
        journal.add(entry("huge", PROMPT_TOKENS_MAX as u32 + 1, 0));
        assert!(kept(&journal).is_empty(), "not even one of that size is kept");
        journal.add(entry("d", 1, 0));
        journal.clear();
        assert!(kept(&journal).is_empty());
    }
}

#[test]
fn every_state_is_told_apart() {
    let entry = entry("a", 1, 0);
    for state in STATES {
        entry.ended(state);
        assert_eq!(entry.state(), state);
    }
    assert!(RequestState::Aborted(AbortCause::Fault).is_final());
    assert!(!RequestState::Queued.is_final());
}
