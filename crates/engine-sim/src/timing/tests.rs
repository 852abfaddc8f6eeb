use super::*;

/// Powers of ten, so that each part can be read off the sum.
const TIMING: Timing = Timing {
    step: Duration::from_secs(1),
    prefill_token: Duration::from_secs(10),
    prefill_attention: Duration::from_secs(1_000_000 * 100),
    decode_sequence: Duration::from_secs(1000),
    decode_context: Duration::from_secs(1000 * 10_000),
    speed: 1.0,
};

/// `prefill` and `decode` are (context, new tokens) and contexts of sequences.
#[track_caller]
fn check(prefill: &[(u32, u32)], decode: &[u32], seconds: u64) {
    let mut load = StepLoad::default();
    for &(context, tokens) in prefill {
        load.prefill(context, tokens);
    }
    for &context in decode {
        load.decode(context);
    }
    assert_eq!(TIMING.step_length(&load), Duration::from_secs(seconds), "{load:?}");
}

#[test]
fn each_part_of_a_step_has_its_own_cost() {
    check(&[], &[], 1);
    check(&[(0, 1)], &[], 1 + 10 + 100);
    check(&[(5, 1)], &[], 1 + 10 + 600);
    check(&[(5, 2)], &[], 1 + 20 + 100 * (6 + 7));
    check(&[], &[0], 1 + 1000);
    check(&[], &[2, 1], 1 + 2000 + 30_000);
    check(&[(0, 1)], &[1], 1 + 10 + 100 + 1000 + 10_000);
}

#[test]
fn the_attention_of_a_prompt_costs_the_same_however_it_is_cut_into_chunks() {
    let mut whole = StepLoad::default();
    whole.prefill(7, 1000);
    for cut in [1, 16, 999] {
        let mut chunks = StepLoad::default();
        chunks.prefill(7, cut);
        chunks.prefill(7 + cut, 1000 - cut);
        assert_eq!(chunks, whole);
    }
}

#[test]
fn a_speed_divides_and_no_input_overflows() {
    let mut load = StepLoad::default();
    load.decode(9);
    assert_eq!(Timing { speed: 2.0, ..TIMING }.step_length(&load), Duration::from_millis(45_500_500));
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let timing = Timing { speed, ..TIMING };
        assert!(timing.is_instant());
        assert_eq!(timing.step_length(&load), Duration::ZERO);
    }
    assert_eq!(Timing { speed: 1e-300, ..TIMING }.step_length(&load), Duration::from_secs(86_400));
}

#[test]
fn an_engine_is_instant_only_when_nothing_costs_time() {
    assert!(Timing { speed: 1.0, ..Timing::INSTANT }.is_instant());
    let some = Duration::from_nanos(1);
    let free = Timing { speed: 1.0, ..Timing::INSTANT };
    for timing in [
        Timing { step: some, ..free },
        Timing { prefill_token: some, ..free },
        Timing { prefill_attention: some, ..free },
        Timing { decode_sequence: some, ..free },
        Timing { decode_context: some, ..free },
    ] {
        assert!(!timing.is_instant(), "{timing:?}");
    }
}
