use proptest::prelude::*;

use super::{Bell, Choice, Lengths};
use crate::config::Span;
use crate::rng::{Purpose, Rng};

fn draws(lengths: &Lengths, seed: u64, count: usize) -> Vec<u32> {
    let mut rng = Rng::new(seed, Purpose::PromptLength, 0);
    (0..count).map(|_| lengths.draw(&mut rng)).collect()
}

fn parse(text: &str) -> Lengths {
    text.parse().unwrap()
}

#[test]
fn lengths_are_read_as_they_are_written() {
    let check = |text: &str, expected: Lengths, written: &str| {
        assert_eq!(parse(text), expected);
        assert_eq!(expected.to_string(), written);
        assert_eq!(parse(written), expected);
    };
    check("512", Lengths::fixed(512), "512");
    check("1-9", Lengths::Even(Span { first: 1, last: 9 }), "1-9");
    check("normal:512,64.5", Lengths::Normal(Bell { mean: 512.0, stddev: 64.5 }), "normal:512,64.5");
    check("lognormal:9,3", Lengths::LogNormal(Bell { mean: 9.0, stddev: 3.0 }), "lognormal:9,3");
    let set = vec![Choice { tokens: 16, weight: 3 }, Choice { tokens: 64, weight: 1 }];
    check("16:3,64", Lengths::Set(set), "16:3,64:1");
}

#[test]
fn what_has_no_form_is_refused_with_the_forms() {
    for text in ["", "x", "9-1", "normal:1", "lognormal:a,b", "1,", "1:x", "-1,2", "normal:1,2,3"] {
        let error = text.parse::<Lengths>().unwrap_err().to_string();
        assert!(error.contains("lognormal:MEAN,STDDEV"), "{text}: {error}");
    }
}

/// The mean of many draws is within 2 % of what is asked, the deviation within 5 %.
#[track_caller]
fn check_bell(text: &str, mean: f64, stddev: f64) {
    for seed in 0..3 {
        let drawn = draws(&parse(text), seed, 50_000);
        let count = drawn.len() as f64;
        let found = drawn.iter().map(|tokens| f64::from(*tokens)).sum::<f64>() / count;
        let variance = drawn.iter().map(|tokens| (f64::from(*tokens) - found).powi(2)).sum::<f64>() / count;
        assert!((found / mean - 1.0).abs() < 0.02, "{text}, seed {seed}: mean {found}");
        assert!((variance.sqrt() / stddev - 1.0).abs() < 0.05, "{text}, seed {seed}: {}", variance.sqrt());
    }
}

#[test]
fn normal_and_log_normal_lengths_have_the_mean_and_deviation_that_are_asked() {
    check_bell("normal:512,64", 512.0, 64.0);
    check_bell("lognormal:512,64", 512.0, 64.0);
    check_bell("lognormal:512,400", 512.0, 400.0);
    check_bell("1-999", 500.0, 288.4);
}

#[test]
fn log_normal_lengths_lean_to_the_short_side() {
    let mut drawn = draws(&parse("lognormal:512,512"), 1, 10_001);
    drawn.sort_unstable();
    // The median of a log-normal distribution is mean² / √(mean² + stddev²).
    let median = f64::from(drawn[5000]);
    assert!((345.0..380.0).contains(&median), "{median}");
}

#[test]
fn a_set_is_drawn_by_its_weights() {
    let drawn = draws(&parse("16:3,64:1,99:0"), 1, 40_000);
    let share = drawn.iter().filter(|tokens| **tokens == 16).count() as f64 / 40_000.0;
    assert!((0.74..0.76).contains(&share), "{share}");
    assert!(drawn.iter().all(|tokens| [16, 64].contains(tokens)));
}

#[test]
fn what_cannot_be_drawn_from_is_named() {
    let check = |lengths: &Lengths, message: &str| {
        let error = lengths.check("output_tokens").map(|error| error.to_string());
        assert_eq!(error.unwrap_or_default(), message);
    };
    check(&parse("normal:5,0"), "");
    check(&parse("1,2"), "");
    check(&Lengths::Even(Span { first: 2, last: 1 }), "output_tokens ends before it begins");
    let bell = "output_tokens has mean NaN and standard deviation 1, must be finite, 1 or more and 0 or more";
    check(&Lengths::Normal(Bell { mean: f64::NAN, stddev: 1.0 }), bell);
    let bell = "output_tokens has mean 5 and standard deviation -1, must be finite, 1 or more and 0 or more";
    check(&Lengths::LogNormal(Bell { mean: 5.0, stddev: -1.0 }), bell);
    let set = "output_tokens must be a set of 1 to 1000 lengths, one of them with a weight above 0";
    check(&parse("1:0,2:0"), set);
    check(&Lengths::Set(vec![Choice { tokens: 1, weight: 1 }; 1001]), set);
}

proptest! {
    #[test]
    fn no_length_is_beyond_the_bounds_that_are_said(
        mean in 1.0..5000.0_f64,
        stddev in 0.0..9000.0_f64,
        set in prop::collection::vec((1_u32..5000, 0_u32..5), 1..6),
        seed in any::<u64>(),
    ) {
        let bell = Bell { mean, stddev };
        let set: Vec<_> = set.into_iter().map(|(tokens, weight)| Choice { tokens, weight }).collect();
        let mut all = vec![Lengths::Normal(bell), Lengths::LogNormal(bell)];
        all.extend(set.iter().any(|choice| choice.weight > 0).then_some(Lengths::Set(set.clone())));
        for lengths in all {
            let (min, max) = (lengths.min(), lengths.max());
            prop_assert!(min >= 1);
            prop_assert!(draws(&lengths, seed, 50).iter().all(|tokens| (min..=max).contains(tokens)));
        }
    }
}
