use super::batches::{HELD_BATCHES_MAX, HELD_BYTES_MAX};
use super::{Action, Batch, Cursor, Doubt, LATE_BATCHES_MAX};

mod model;
mod proof;

/// `5a` is batch 5 of process a, `!` marks it damaged, `*` cleared.
fn batch(word: &str) -> Batch<String> {
    let name = word.trim_end_matches(['!', '*']);
    let (seq, process) = name.split_at(name.len() - 1);
    Batch {
        seq: seq.parse().unwrap(),
        digest: seq.parse::<u64>().unwrap() << 8 | u64::from(process.as_bytes()[0]),
        bytes: 1,
        body: Some(name.to_owned()),
        damaged: word.contains('!'),
        cleared: word.contains('*'),
    }
}

fn shown(actions: Vec<Action<String>>, ask: &mut u64) -> String {
    let word = |action| match action {
        Action::Apply(body) => body,
        Action::Complete => "complete".to_owned(),
        Action::Unproven => "unproven".to_owned(),
        Action::Partial(Doubt::Forgotten(seq)) => format!("forgotten<{seq}"),
        Action::Partial(Doubt::Missed(seq)) => format!("missed<{seq}"),
        Action::Partial(Doubt::Unanswered) => "unanswered".to_owned(),
        Action::Partial(Doubt::Restarted) => "restarted".to_owned(),
        Action::Partial(Doubt::Unreadable(seq)) => format!("unreadable={seq}"),
        Action::Replay { ask: new, from, .. } => {
            *ask = new;
            format!("ask>={from}")
        }
    };
    actions.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Plays each line's inputs to one cursor and compares the actions after `=>`.
#[track_caller]
fn check(script: &str) -> Cursor<String> {
    let (mut cursor, actions) = Cursor::start();
    let mut ask = 0;
    assert_eq!("ask>=0", shown(actions, &mut ask));
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (input, expected) = line.split_once("=>").unwrap();
        let mut words = input.split_whitespace();
        let (verb, mut seen) = (words.next().unwrap(), Vec::new());
        let batches: Vec<&str> = words.collect();
        match verb {
            "live" => seen.extend(batches.iter().map(|word| cursor.live(batch(word)))),
            "replay" => seen.extend(batches.iter().map(|word| cursor.replayed(ask, batch(word)))),
            "stale" => {
                seen.extend(batches.iter().map(|word| cursor.replayed(ask - 1, batch(word))));
                seen.push(cursor.replay_ended(ask - 1));
                seen.push(cursor.replay_failed(ask - 1));
            }
            "end" => seen.push(cursor.replay_ended(ask)),
            "fail" => seen.push(cursor.replay_failed(ask)),
            "interrupted" => seen.push(cursor.interrupted()),
            "resubscribed" => seen.push(cursor.resubscribed()),
            other => panic!("{other}"),
        }
        assert_eq!(expected.trim(), shown(seen.concat(), &mut ask), "after {input}");
    }
    cursor
}

#[test]
fn an_engine_that_published_nothing_is_complete_at_once() {
    let cursor = check(
        "end       => complete
         live 0a   => 0a
         live 1a   => 1a",
    );
    assert!(cursor.complete());
}

#[test]
fn a_replay_from_the_first_batch_makes_the_table_whole() {
    let cursor = check(
        "live 2a 3a   =>
         replay 0a 1a => 0a 1a
         replay 2a    => 2a
         end          => 3a complete
         live 4a      => 4a",
    );
    assert_eq!((5, 1, 0, 0), {
        let counters = cursor.counters();
        (counters.batches, counters.replays, counters.gaps, counters.restarts)
    });
}

#[test]
fn a_replay_that_begins_later_leaves_the_rank_partial() {
    check(
        "replay 7a => forgotten<7 7a
         replay 8a => 8a
         end       =>
         live 9a   => 9a",
    );
}

#[test]
fn without_replay_only_a_first_live_batch_numbered_0_proves_the_history() {
    check(
        "fail    => unanswered
         live 0a => 0a complete
         live 1a => 1a",
    );
    check(
        "live 0a => 
         fail    => 0a complete",
    );
    check(
        "fail    => unanswered
         live 4a => ask>=0
         fail    => 4a
         live 5a => 5a",
    );
}

#[test]
fn a_gap_is_closed_by_a_replay_that_repeats_our_last_batch() {
    let cursor = check(
        "end       => complete
         live 0a   => 0a
         live 3a   => unproven ask>=0
         live 4a   =>
         replay 0a =>
         replay 1a => 1a
         replay 2a => 2a
         replay 3a => 3a
         end       => 4a complete",
    );
    assert_eq!((1, 2), (cursor.counters().gaps, cursor.counters().replays));
    assert!(cursor.complete());
}

#[test]
fn a_gap_that_the_replay_does_not_reach_or_nobody_answers_makes_the_rank_partial() {
    check(
        "end       => complete
         live 0a   => 0a
         live 9a   => unproven ask>=0
         replay 8a => forgotten<8 8a
         replay 9a => 9a
         end       =>
         live 10a  => 10a",
    );
    check(
        "end         => complete
         live 0a     => 0a
         live 9a 10a => unproven ask>=0
         fail        => missed<9 9a 10a
         live 11a    => 11a",
    );
}

#[test]
fn reordered_batches_are_put_in_order_even_when_the_replay_fails() {
    check(
        "end        => complete
         live 0a    => 0a
         live 2a 1a => unproven ask>=0
         fail       => 1a 2a complete",
    );
}

#[test]
fn a_batch_that_was_given_up_is_not_applied_late() {
    check(
        "end     => complete
         live 0a => 0a
         live 2a => unproven ask>=0
         fail    => missed<2 2a
         live 1a =>
         live 3a => 3a",
    );
}

#[test]
fn a_batch_seen_again_is_dropped() {
    let cursor = check(
        "end              => complete
         live 0a 1a 1a 0a => 0a 1a
         live 2a          => 2a",
    );
    assert_eq!(2, cursor.counters().duplicates);
}

#[test]
fn a_known_number_with_other_content_is_a_restart() {
    let cursor = check(
        "end          => complete
         live 0a 1a   => 0a 1a
         live 0b      => restarted ask>=0
         live 1b      =>
         replay 0b 1b => 0b 1b
         end          => complete
         live 2b      => 2b",
    );
    assert_eq!(1, cursor.counters().restarts);
}

#[test]
fn a_restarted_engine_that_is_already_past_our_number_is_found_by_its_digest() {
    check(
        "end             => complete
         live 0a 1a      => 0a 1a
         live 4b         => unproven ask>=1
         replay 1b       => restarted ask>=0
         replay 0b 1b 2b => 0b 1b 2b
         replay 3b 4b    => 3b 4b
         end             => complete",
    );
}

#[test]
fn a_restarted_engine_that_is_still_behind_us_is_found_when_the_subscription_was_interrupted() {
    check(
        "end          => complete
         live 0a 1a   => 0a 1a
         resubscribed => unproven ask>=1
         end          => restarted ask>=0
         replay 0b    => 0b
         end          => complete",
    );
}

#[test]
fn answers_to_an_older_question_are_ignored() {
    check(
        "end          => complete
         live 0a      => 0a
         live 2a      => unproven ask>=0
         resubscribed => ask>=0
         stale 0b 7b  =>
         replay 0a 1a => 1a
         end          => complete",
    );
}

#[test]
fn an_unreadable_batch_counts_and_voids_the_table() {
    let cursor = check(
        "end      => complete
         live 0a  => 0a
         live 1a! => unreadable=1 1a
         live 2a  => 2a
         live 1a  =>",
    );
    assert_eq!((1, false), (cursor.counters().unreadable, cursor.complete()));
}

#[test]
fn a_clear_makes_a_partial_rank_whole() {
    check(
        "replay 7a  => forgotten<7 7a
         replay 8a* => 8a
         end        => complete
         live 9a!   => unreadable=9 9a
         live 10a*  => 10a complete
         live 11a!* => unreadable=11 11a complete",
    );
}

#[test]
fn a_wrong_number_neither_voids_the_table_nor_makes_the_feed_deaf() {
    let cursor = check(
        "end                    => complete
         live 0a                => 0a
         live 99999a            => unproven ask>=0
         live 2a                =>
         replay 0a 1a           => 1a
         end                    => 2a ask>=2
         replay 2a              =>
         end                    => complete
         live 3a                => 3a",
    );
    assert!(cursor.complete());
    assert_eq!(8, LATE_BATCHES_MAX);
    check(
        "end                        => complete
         live 0a                    => 0a
         live 99999a                => unproven ask>=0
         fail                       => missed<99999 99999a
         live 1a 2a 3a 4a 5a 6a 7a  =>
         live 8a                    => restarted ask>=0
         replay 0a                  => 0a",
    );
}

#[test]
fn answers_lost_in_a_long_replay_are_asked_for_again() {
    check(
        "replay 0a 1a => 0a 1a
         replay 5a    => ask>=1
         replay 1a 2a => 2a
         end          => complete",
    );
    check(
        "replay 3a => forgotten<3 3a
         replay 6a => ask>=3
         replay 6a => forgotten<6 6a
         end       =>",
    );
}

#[test]
fn a_number_from_before_all_we_remember_waits_for_its_successor_when_no_replay_tells() {
    check(
        "fail    => unanswered
         live 7a => ask>=0
         fail    => 7a
         live 6a => restarted ask>=0
         fail    =>
         live 8a => 8a",
    );
    check(
        "fail       => unanswered
         live 7a    => ask>=0
         fail       => 7a
         live 0b    => restarted ask>=0
         fail       =>
         live 1b    => 0b 1b complete",
    );
}

#[test]
fn what_waits_for_a_replay_is_bounded_in_batches_and_bytes() {
    let (mut cursor, _) = Cursor::start();
    for seq in 1..=HELD_BATCHES_MAX as u64 {
        assert!(cursor.live(Batch { seq, ..batch("1a") }).is_empty());
    }
    let actions = cursor.live(Batch { seq: HELD_BATCHES_MAX as u64 + 1, ..batch("1a") });
    assert_eq!(HELD_BATCHES_MAX + 2, actions.len());
    assert_eq!(Action::Partial(Doubt::Unanswered), actions[0]);

    let (mut cursor, _) = Cursor::start();
    assert!(cursor.live(Batch { bytes: HELD_BYTES_MAX, ..batch("0a") }).is_empty());
    let actions = cursor.live(batch("1a"));
    assert_eq!("0a 1a complete", shown(actions, &mut 0));
}

#[test]
fn the_number_that_ends_a_replay_is_no_batch() {
    let (mut cursor, _) = Cursor::start();
    assert!(cursor.live(Batch { seq: u64::MAX, ..batch("0a") }).is_empty());
    assert!(cursor.replayed(1, Batch { seq: u64::MAX, ..batch("0a") }).is_empty());
    assert_eq!(2, cursor.counters().unreadable);
    assert_eq!(vec![Action::Complete], cursor.replay_ended(1));
}

#[test]
fn doubts_read_as_sentences() {
    let doubts =
        [Doubt::Forgotten(3), Doubt::Missed(3), Doubt::Unanswered, Doubt::Restarted, Doubt::Unreadable(3)];
    let texts: Vec<String> = doubts.iter().map(ToString::to_string).collect();
    assert_eq!(
        [
            "the engine's replay buffer begins at batch 3",
            "batches before 3 are missing and could not be replayed",
            "no replay was answered, so batches may be missing",
            "the engine's event publisher restarted",
            "batch 3 could not be read",
        ],
        texts[..]
    );
}
