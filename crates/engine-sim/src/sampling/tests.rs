use super::{Sampler, Sampling};
use crate::model::{Model, ModelConfig};

const EOS: u32 = 1002;

fn model() -> Model {
    Model::new(ModelConfig {
        seed: 9,
        vocabulary_rows: 1024,
        ordinary_ids: 1000,
        eos_id: EOS,
        eos_probability: 0.0,
    })
}

/// Generates `count` ids with some sampling; `masked` is forbidden throughout.
fn run(sampling: Sampling, count: usize, masked: &[u32]) -> Vec<u32> {
    let model = model();
    let sampler = Sampler::new(&model, sampling);
    let mut context = model.start(None).extend(&[1, 2, 3]);
    let mut output = Vec::new();
    for _ in 0..count {
        let id = sampler.next(&model, context, &output, masked);
        output.push(id);
        context = context.push(id);
    }
    output
}

fn warm() -> Sampling {
    Sampling { temperature: 1.0, ..Sampling::greedy() }
}

#[test]
fn greedy_takes_the_best_also_under_constraints() {
    let model = model();
    let context = model.start(None).extend(&[1, 2, 3]);
    let best = run(Sampling::greedy(), 1, &[])[0];
    assert_eq!(model.rank_of(context, best), 1);
    let second = run(Sampling { bad_words: vec![vec![best]], ..Sampling::greedy() }, 1, &[])[0];
    assert_eq!(model.rank_of(context, second), 2);
    assert_eq!(run(Sampling::greedy(), 1, &[best])[0], second, "masked is as good as forbidden");
    let forbidden = Sampling { logit_bias: vec![(best, -100.0)], ..Sampling::greedy() };
    assert_eq!(run(forbidden, 1, &[])[0], second);
}

#[test]
fn a_bias_of_a_hundred_forces_any_id() {
    for id in [0, 999, EOS, 1023] {
        for base in [Sampling::greedy(), warm()] {
            assert_eq!(run(Sampling { logit_bias: vec![(id, 100.0)], ..base }, 3, &[]), [id; 3]);
        }
    }
}

#[test]
fn only_allowed_ids_come_and_all_of_them_do() {
    let sampling = Sampling { allowed_ids: vec![65, 66, 67], ..warm() };
    let mut seen = run(sampling, 200, &[]);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [65, 66, 67]);
    let all_masked = Sampling { allowed_ids: vec![65], ..Sampling::greedy() };
    assert_eq!(run(all_masked, 2, &[65]), [65, 65], "something must come");
}

#[test]
fn a_bad_word_of_two_ids_never_appears() {
    let free = run(Sampling { allowed_ids: vec![1, 2], ..warm() }, 100, &[]);
    assert!(free.windows(2).any(|pair| pair == [1, 2]));
    let sampling = Sampling { allowed_ids: vec![1, 2], bad_words: vec![vec![1, 2]], ..warm() };
    let held = run(sampling, 100, &[]);
    assert!(!held.windows(2).any(|pair| pair == [1, 2]));
    assert!(held.contains(&1), "its ids alone are fine");
}

#[test]
fn seeds_give_different_draws_and_the_same_seed_the_same() {
    let seeded = |seed| run(Sampling { seed, ..warm() }, 20, &[]);
    assert_eq!(seeded(Some(1)), seeded(Some(1)));
    assert_ne!(seeded(Some(1)), seeded(Some(2)));
    assert_ne!(seeded(Some(-1)), seeded(Some(1)));
    assert_eq!(seeded(None), seeded(None), "without a seed it still depends on the ids alone");
}

#[test]
fn an_arrival_draws_the_first_id_and_the_rest_follows_from_it() {
    let constrained = Sampling { logit_bias: vec![(7, 0.5)], ..warm() };
    for base in [warm(), constrained] {
        let arrived = |number| run(Sampling { arrival: Some(number), ..base.clone() }, 20, &[]);
        assert_eq!(arrived(3), arrived(3));
        let outputs: Vec<Vec<u32>> = (0..40).map(arrived).collect();
        let mut firsts: Vec<u32> = outputs.iter().map(|output| output[0]).collect();
        firsts.sort_unstable();
        firsts.dedup();
        assert!(firsts.len() > 3, "{firsts:?}");
        // What follows the first id is what follows it for everybody.
        for output in &outputs {
            let same = outputs.iter().filter(|other| other[0] == output[0]);
            assert!(same.into_iter().all(|other| other == output));
        }
    }
}

#[test]
fn an_arrival_changes_neither_greedy_nor_seeded_ids() {
    for base in [Sampling::greedy(), Sampling { seed: Some(5), ..warm() }] {
        let arrived = |arrival| run(Sampling { arrival, ..base.clone() }, 20, &[]);
        assert_eq!([arrived(Some(1)), arrived(Some(2))], [arrived(None), arrived(None)]);
    }
}

#[test]
fn truncation_bounds_the_rank_with_and_without_constraints() {
    let model = model();
    let cases = [
        (Sampling { top_k: 3, ..warm() }, 3),
        (Sampling { min_p: 0.5, ..warm() }, 2),
        (Sampling { top_p: 1e-6, ..warm() }, 1),
        (Sampling { top_k: u32::MAX, ..warm() }, 1000),
    ];
    for (sampling, most) in cases {
        for constrained in [false, true] {
            let logit_bias = if constrained { vec![(EOS, -100.0)] } else { Vec::new() };
            let sampler = Sampler::new(&model, Sampling { logit_bias, ..sampling.clone() });
            for step in 0..200 {
                let context = model.start(None).push(step);
                let id = sampler.next(&model, context, &[], &[]);
                assert!(model.rank_of(context, id) <= most);
                assert!(sampler.mask(&model, context, &[], &[]).contains(&id));
            }
        }
    }
}

#[test]
fn a_hotter_temperature_spreads_further() {
    let model = model();
    let mean_rank = |temperature| {
        let sampler = Sampler::new(&model, Sampling { temperature, ..warm() });
        let rank_at = |step| {
            let context = model.start(None).push(step);
            model.rank_of(context, sampler.next(&model, context, &[], &[]))
        };
        (0..500).map(rank_at).sum::<u32>() / 500
    };
    assert!(mean_rank(0.5) < mean_rank(1.0) && mean_rank(1.0) < mean_rank(2.0));
}

#[test]
fn drawn_ids_follow_their_probabilities() {
    let model = model();
    let sampler = Sampler::new(&model, warm());
    let (mut expected, mut first) = (0.0, 0);
    for step in 0..5000 {
        let context = model.start(None).push(step);
        // Only ordinary ids are drawn: a little more than the log-prob over the whole vocabulary says.
        expected += f64::from(model.logprob_at(context, 1)).exp();
        first += u32::from(model.rank_of(context, sampler.next(&model, context, &[], &[])) == 1);
    }
    assert!((f64::from(first) / expected - 1.0).abs() < 0.05, "{first} of {expected}");
}

#[test]
fn a_greedy_mask_is_the_whole_vocabulary() {
    let model = model();
    let mask = Sampler::new(&model, Sampling::greedy()).mask(&model, model.start(None), &[], &[]);
    assert_eq!(mask, (0..1024).collect::<Vec<_>>());
}
