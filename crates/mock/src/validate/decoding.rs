//! Temperature, random sampling and decoding parameters.

use std::collections::BTreeMap;

use tito_engine_sim::Sampling;
use vllm_proto::{DecodingParameters, RandomSampling};

use super::{Checked, Limits, check_ids, invalid};

pub(super) fn check(
    temperature: Option<f32>,
    random: Option<&RandomSampling>,
    decoding: Option<&DecodingParameters>,
    limits: &Limits<'_>,
) -> Checked<Sampling> {
    // Absent is greedy: on gRPC the model's generation_config has no say in the temperature.
    let temperature = temperature.unwrap_or(0.0);
    if !temperature.is_finite() {
        return Err(invalid(format!("temperature must be finite, got {temperature}")));
    }
    within("temperature", temperature, 0.0, 2.0)?;
    let mut sampling = Sampling { temperature, ..Sampling::greedy() };
    check_random(random, limits, &mut sampling)?;
    if let Some(decoding) = decoding {
        check_decoding(decoding, limits, &mut sampling)?;
    }
    Ok(sampling)
}

fn check_random(
    random: Option<&RandomSampling>,
    limits: &Limits<'_>,
    sampling: &mut Sampling,
) -> Checked<()> {
    let defaults = limits.generation;
    let (top_k, top_p, min_p) = match random {
        None => (None, None, None),
        Some(RandomSampling { num_sequences, top_k, top_p, min_p, seed }) => {
            if *num_sequences > 1 {
                return Err(invalid("more than one sequence is not supported"));
            }
            sampling.seed = *seed;
            (*top_k, *top_p, *min_p)
        }
    };
    if let Some(top_p) = top_p {
        // The negation also refuses NaN.
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(invalid(format!("top_p must lie in (0, 1], got {top_p}")));
        }
    }
    if let Some(min_p) = min_p {
        within("min_p", min_p, 0.0, 1.0)?;
    }
    sampling.top_k = top_k.or(defaults.top_k).unwrap_or(0);
    sampling.top_p = top_p.or(defaults.top_p).unwrap_or(1.0);
    sampling.min_p = min_p.or(defaults.min_p).unwrap_or(0.0);
    Ok(())
}

fn check_decoding(
    decoding: &DecodingParameters,
    limits: &Limits<'_>,
    sampling: &mut Sampling,
) -> Checked<()> {
    let DecodingParameters {
        presence_penalty,
        frequency_penalty,
        repetition_penalty,
        logit_bias,
        allowed_token_ids,
        bad_words_token_ids,
        structured_output: _,
    } = decoding;
    within("presence_penalty", *presence_penalty, -2.0, 2.0)?;
    within("frequency_penalty", *frequency_penalty, -2.0, 2.0)?;
    // 0 is the wire's default and means unset.
    if !(*repetition_penalty >= 0.0 && repetition_penalty.is_finite()) {
        return Err(invalid(format!("repetition_penalty must be positive, got {repetition_penalty}")));
    }
    let rows = limits.vocabulary.rows;
    let bias: BTreeMap<u32, f32> = logit_bias.iter().map(|(id, bias)| (*id, *bias)).collect();
    let biased: Vec<u32> = bias.keys().copied().collect();
    check_ids("logit_bias", &biased, rows)?;
    check_ids("allowed_token_ids", allowed_token_ids, limits.vocabulary.tokenizer_ids)?;
    for word in bad_words_token_ids {
        if word.ids.is_empty() {
            return Err(invalid("bad_words_token_ids holds an empty sequence"));
        }
        check_ids("bad_words_token_ids", &word.ids, rows)?;
    }
    sampling.logit_bias = bias.into_iter().collect();
    sampling.allowed_ids.clone_from(allowed_token_ids);
    sampling.bad_words = bad_words_token_ids.iter().map(|word| word.ids.clone()).collect();
    Ok(())
}

/// A number in a closed range; NaN is in none.
fn within(name: &str, value: f32, low: f32, high: f32) -> Checked<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(invalid(format!("{name} must lie in [{low}, {high}], got {value}")))
}
