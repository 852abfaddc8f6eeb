use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Context, Model, ModelConfig};

fn model(seed: u64, rows: u32, ordinary: u32) -> Model {
    Model::new(ModelConfig {
        seed,
        vocabulary_rows: rows,
        ordinary_ids: ordinary,
        eos_id: rows - 1,
        eos_probability: 0.0,
    })
}

fn contexts(model: &Model) -> impl Iterator<Item = Context> + '_ {
    (0..50).map(|index| model.start(None).extend(&[index, index * 7, 3]))
}

#[test]
fn a_ranking_names_every_id_once_and_special_ids_last() {
    for (rows, ordinary) in [(1024, 1000), (260, 256), (7, 7), (2, 1), (1, 1)] {
        let model = model(1, rows, ordinary);
        for context in contexts(&model) {
            let ids: Vec<u32> = (1..=rows).map(|rank| model.id_at(context, rank)).collect();
            assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), rows as usize);
            assert!(ids[..ordinary as usize].iter().all(|id| *id < ordinary));
            for (index, id) in ids.iter().enumerate() {
                assert_eq!(model.rank_of(context, *id), index as u32 + 1);
            }
        }
    }
}

#[test]
fn logprobs_fall_with_rank_and_their_mass_is_one() {
    let model = model(2, 1024, 1000);
    for context in contexts(&model) {
        let all = model.candidates(context, u32::MAX);
        assert_eq!(all.len(), 1024);
        assert!(all.iter().all(|candidate| candidate.logprob < 0.0 && candidate.logprob.is_finite()));
        assert!(all.windows(2).all(|pair| pair[0].logprob > pair[1].logprob));
        let mass: f64 = all.iter().map(|candidate| f64::from(candidate.logprob).exp()).sum();
        assert!((mass - 1.0).abs() < 1e-4, "{mass}");
    }
}

#[test]
fn seed_adapter_content_and_every_id_change_what_comes_next() {
    let (one, two) = (model(1, 1024, 1000), model(2, 1024, 1000));
    let start = one.start(None);
    let variants = [
        start,
        two.start(None),
        one.start(Some(1)),
        one.start(Some(2)),
        start.push(0),
        start.push(1),
        start.extend(&[1, 2]),
        start.extend(&[2, 1]),
        start.push_content(1),
        start.push_content(1).push(0),
    ];
    assert_eq!(variants.iter().map(|context| context.word()).collect::<BTreeSet<_>>().len(), variants.len());
    assert_eq!(start.extend(&[1, 2, 3]), start.push(1).push(2).push(3));
}

#[test]
fn every_ordinary_id_can_be_the_best() {
    let model = model(3, 260, 256);
    let mut context = model.start(None);
    let mut best = BTreeSet::new();
    for step in 0..8192 {
        context = context.push(step % 256);
        best.insert(model.id_at(context, 1));
    }
    assert_eq!(best.len(), 256);
}

#[test]
fn an_end_comes_as_often_as_configured() {
    let config = ModelConfig {
        seed: 4,
        vocabulary_rows: 1024,
        ordinary_ids: 1000,
        eos_id: 1002,
        eos_probability: 0.1,
    };
    let model = Model::new(config);
    let mut context = model.start(None);
    let mut ends = 0;
    for step in 0..10_000 {
        context = context.push(step);
        ends += u32::from(model.ends(context));
    }
    assert!((900..1100).contains(&ends), "{ends}");
}

#[test]
fn curves_are_kept_up_to_a_bound() {
    let model = model(5, 64, 60);
    for step in 0..100u8 {
        model.curve(0.01 * f32::from(step) + 0.005);
    }
    assert_eq!(model.curves.lock().unwrap().len(), super::CURVES_MAX);
}

proptest! {
    #[test]
    fn rank_and_id_are_inverse(seed: u64, ids in prop::collection::vec(0u32..2000, 0..20), rank in 1u32..3000) {
        let model = model(seed, 1500, 1400);
        let context = model.start(None).extend(&ids);
        let id = model.id_at(context, rank);
        prop_assert!(id < 1500);
        prop_assert_eq!(model.rank_of(context, id), rank.min(1500));
    }
}
