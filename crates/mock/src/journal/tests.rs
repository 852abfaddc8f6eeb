use std::sync::Arc;

use vllm_proto::media_item::Source;
use vllm_proto::{GenerateRequest, MediaItem};

use super::{AbortCause, Journal, JournalEntry, MEDIA_BYTES_MAX, PROMPT_TOKENS_MAX, RequestState, STATES};

fn entry(id: &str, prompt_tokens: u32) -> Arc<JournalEntry> {
    let request = Arc::new(GenerateRequest::default());
    Arc::new(JournalEntry::new(id.to_owned(), String::new(), 0, prompt_tokens, request))
}

fn kept(journal: &Journal) -> Vec<String> {
    journal.entries().iter().map(|entry| entry.request_id.clone()).collect()
}

#[test]
fn the_oldest_go_when_there_are_too_many() {
    let journal = Journal::new(2);
    for id in ["a", "b", "c"] {
        journal.add(entry(id, 1));
    }
    assert_eq!(kept(&journal), ["b", "c"]);
    journal.clear();
    assert!(kept(&journal).is_empty());
}

#[test]
fn the_oldest_go_when_they_are_too_large() {
    let journal = Journal::new(10);
    let half = PROMPT_TOKENS_MAX as u32 / 2;
    for id in ["a", "b", "c"] {
        journal.add(entry(id, half));
    }
    assert_eq!(kept(&journal), ["b", "c"]);
    journal.add(entry("huge", PROMPT_TOKENS_MAX as u32 + 1));
    assert!(kept(&journal).is_empty(), "not even one of that size is kept");
}

#[test]
fn the_oldest_go_when_their_media_are_too_large() {
    let journal = Journal::new(10);
    for id in ["a", "b", "c"] {
        let source = Some(Source::RawBytes(vec![0; MEDIA_BYTES_MAX / 2 - 100]));
        let media = vec![MediaItem { source, ..MediaItem::default() }];
        let request = Arc::new(GenerateRequest { media, ..GenerateRequest::default() });
        journal.add(Arc::new(JournalEntry::new(id.to_owned(), String::new(), 0, 1, request)));
    }
    assert_eq!(kept(&journal), ["b", "c"]);
}

#[test]
fn every_state_is_told_apart() {
    let entry = entry("a", 1);
    for state in STATES {
        entry.ended(state);
        assert_eq!(entry.state(), state);
    }
    assert!(RequestState::Aborted(AbortCause::Fault).is_final());
    assert!(!RequestState::Queued.is_final());
}
