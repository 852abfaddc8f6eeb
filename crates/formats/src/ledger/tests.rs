use super::*;

/// Three tokens of one choice, without an end.
fn delta(index: u32) -> Delta {
    let token_ids = vec![1, 2, 3];
    Delta { index, prompt: None, token_ids, text: String::new(), logprobs: Vec::new(), finish: None }
}

#[test]
fn the_usage_of_a_choice_counts_its_own_prompt_and_its_own_tokens() {
    let mut ledger = Ledger::new(2, vec![Some(10), Some(20), None], false, false);
    ledger.book(&delta(3)).unwrap();
    let usage = |choice| {
        let Usage { prompt_tokens, cached_tokens, completion_tokens } = ledger.usage_of(choice);
        (prompt_tokens, cached_tokens, completion_tokens)
    };
    let expected = [(10, None, 0), (10, None, 0), (20, None, 0), (20, None, 3), (0, None, 0), (0, None, 0)];
    assert_eq!([0, 1, 2, 3, 4, 5].map(usage), expected);
    assert_eq!([0, 1, 2, 3, 4, 5].map(|choice| ledger.prompt_of(choice)), [0, 0, 1, 1, 2, 2]);
}
