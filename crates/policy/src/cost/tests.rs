use super::*;

#[track_caller]
fn check(prompt: u32, held: [u32; 4], uncached: f64) {
    let [gpu, cpu, storage, predicted] = held;
    let weights = Weights::STANDARD.to_milli();
    let got = weights.uncached(prompt, Held { gpu, cpu, storage, predicted });
    assert!((tokens(got) - uncached).abs() < 1e-9, "{} instead of {uncached}", tokens(got));
}

#[test]
fn lower_tiers_are_credited_by_their_weights_and_only_beyond_the_tier_above() {
    check(100, [0, 0, 0, 0], 100.0);
    check(100, [40, 0, 0, 0], 60.0);
    check(100, [40, 20, 0, 0], 60.0 - 15.0);
    check(100, [40, 20, 20, 0], 60.0 - 15.0 - 5.0);
    check(100, [0, 0, 40, 0], 90.0);
}

#[test]
fn a_prediction_replaces_lower_tiers_where_it_reaches_further() {
    check(100, [10, 20, 0, 20], 80.0 - 7.5);
    check(100, [10, 20, 0, 50], 50.0);
    check(100, [60, 0, 0, 50], 40.0);
}

#[test]
fn the_last_token_of_a_prompt_is_always_computed() {
    check(64, [64, 0, 0, 0], 1.0);
    check(64, [u32::MAX, u32::MAX, u32::MAX, u32::MAX], 1.0);
    check(1, [16, 0, 0, 0], 1.0);
    check(0, [16, 0, 0, 0], 0.0);
}

#[test]
fn weights_that_are_no_numbers_count_as_nothing() {
    let weights =
        Weights { prefill: f64::NAN, decode: -1.0, seat_tokens: f64::INFINITY, ..Weights::STANDARD };
    let milli = weights.to_milli();
    assert_eq!((milli.prefill, milli.decode, milli.seat), (0, 0, 1_000_000_000));
}
