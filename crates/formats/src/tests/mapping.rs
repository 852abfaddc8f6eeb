//! Every executed field changes exactly the part of the request that it names.

use std::collections::BTreeSet;
use std::sync::Arc;

use tito_types::StructuredOutput::{Choice, Grammar, JsonObject, JsonSchema, Regex, StructuralTag};
use tito_types::{
    Candidates, Delivery, GenerateRequest, Media, MediaFeatures, Modality, RawJson, RawMedia, Reasoning,
    RequestId, WorkerId,
};

use super::{COMPLETIONS, GENERATE, Subject};
use crate::fields::Treatment;
use crate::testing::{bind, catalog, context};
use crate::{BindContext, Bound};

type Change = fn(&mut GenerateRequest);

/// Fields that change how the reply looks, or that have tables of their own.
const ELSEWHERE: &str = "stream_options stream_options.include_usage stream_options.continuous_usage_stats best_of \
    response_format response_format.type response_format.json_schema response_format.structures \
    response_format.triggers features.mm_hashes features.mm_placeholders features.kwargs_data features.mm_metadata";

const TAG: &str = r#"{"structures":[{"begin":"<f>","schema":{},"end":""}],"triggers":["<"]}"#;

/// Fields of both formats: path, value, and what it changes.
const COMMON: &[(&str, &str, Change)] = &[
    ("n", "3", |r| r.n = 3),
    ("temperature", "0", |r| r.sampling.temperature = Some(0.0)),
    ("temperature", "2", |r| r.sampling.temperature = Some(2.0)),
    ("top_p", "0.5", |r| r.sampling.top_p = Some(0.5)),
    ("top_k", "7", |r| r.sampling.top_k = Some(7)),
    ("top_k", "-1", |r| r.sampling.top_k = Some(0)),
    ("min_p", "0.25", |r| r.sampling.min_p = Some(0.25)),
    ("seed", "-5", |r| r.sampling.seed = Some(-5)),
    ("seed", "-9223372036854775808", |r| r.sampling.seed = Some(i64::MIN)),
    ("presence_penalty", "-2", |r| r.sampling.presence_penalty = Some(-2.0)),
    ("frequency_penalty", "2", |r| r.sampling.frequency_penalty = Some(2.0)),
    ("frequency_penalty", "-2", |r| r.sampling.frequency_penalty = Some(-2.0)),
    ("repetition_penalty", "1.5", |r| r.sampling.repetition_penalty = Some(1.5)),
    ("max_tokens", "4294967295", |r| r.stopping.max_tokens = Some(u32::MAX)),
    ("min_tokens", "2", |r| r.stopping.min_tokens = 2),
    ("stop", "\"a\"", |r| r.stopping.stop = vec!["a".into()]),
    ("stop", "[\"xyz\",\"é\"]", |r| r.stopping.stop = vec!["xyz".into(), "é".into()]),
    ("stop_token_ids", "[4,4294967295]", |r| r.stopping.stop_token_ids = vec![4, u32::MAX]),
    ("include_stop_str_in_output", "true", |r| r.stopping.include_stop_str_in_output = true),
    ("ignore_eos", "true", |r| r.stopping.ignore_eos = true),
    ("thinking_token_budget", "-1", |r| r.stopping.thinking_token_budget = Some(-1)),
    ("skip_special_tokens", "false", |r| r.outputs.skip_special_tokens = false),
    ("logprobs", "-1", |r| r.outputs.logprobs = Some(Candidates::All)),
    ("logprobs", "2", |r| r.outputs.logprobs = Some(Candidates::Top(2))),
    ("prompt_logprobs", "0", |r| r.outputs.prompt_logprobs = Some(Candidates::Top(0))),
    ("routed_experts_prompt_start", "3", |r| r.outputs.routed_experts_prompt_start = Some(3)),
    ("logit_bias", "{\"9\":-100,\"5\":1.5}", |r| r.sampling.logit_bias = vec![(9, -100.0), (5, 1.5)]),
    ("allowed_token_ids", "[9,5]", |r| r.sampling.allowed_token_ids = vec![9, 5]),
    ("bad_words_token_ids", "[[9],[5,6]]", |r| r.sampling.bad_words_token_ids = vec![vec![9], vec![5, 6]]),
    ("watermarking", "false", |r| r.sampling.watermarking = Some(false)),
    ("skip_reading_prefix_cache", "true", |r| r.kv.bypass_prefix_cache = true),
    ("structured_outputs", "{\"json_object\":true}", |r| r.sampling.structured = Some(JsonObject)),
    ("structured_outputs.json_object", "true", |r| r.sampling.structured = Some(JsonObject)),
    ("structured_outputs.json", "{\"b\": 1, \"a\":2}", |r| {
        r.sampling.structured = Some(JsonSchema("{\"b\": 1, \"a\":2}".into()));
    }),
    ("structured_outputs.json", r#""{\"b\": 1}""#, |r| {
        r.sampling.structured = Some(JsonSchema("{\"b\": 1}".into()));
    }),
    ("structured_outputs.regex", "\"[0-9]+\"", |r| r.sampling.structured = Some(Regex("[0-9]+".into()))),
    ("structured_outputs.choice", "[\"a\",\"b\"]", |r| {
        r.sampling.structured = Some(Choice(vec!["a".into(), "b".into()]));
    }),
    ("structured_outputs.grammar", "\"g ::= 1\"", |r| {
        r.sampling.structured = Some(Grammar("g ::= 1".into()));
    }),
    ("structured_outputs.structural_tag", TAG, |r| r.sampling.structured = Some(StructuralTag(TAG.into()))),
];

/// Fields beside the sampling parameters, in both formats.
const ENVELOPE: &[(&str, &str, Change)] = &[
    ("model", "\"org/alias\"", |r| r.model = "org/alias".into()),
    ("stream", "true", |r| r.delivery = Delivery::Deltas),
    ("request_id", "\"mine\"", |r| r.id = RequestId::parse("mine").unwrap()),
    ("return_token_ids", "true", |r| r.outputs.prompt_token_ids = true),
    ("cache_salt", "\"s\"", |r| r.kv.cache_salt = Some("s".into())),
    ("priority", "-3", |r| r.priority = -3),
    ("kv_transfer_params", "{\"b\": 1, \"a\":{}}", |r| {
        r.kv.transfer_params = Some(RawJson::new("{\"b\": 1, \"a\":{}}".into()));
    }),
    ("ec_transfer_params", "{\"x\":[1.0]}", |r| {
        r.kv.ec_transfer_params = Some(RawJson::new("{\"x\":[1.0]}".into()));
    }),
];

const GENERATE_ONLY: &[(&str, &str, Change)] = &[
    ("token_ids", "[7,0,4294967295]", |r| r.prompt = [7, 0, u32::MAX].into()),
    ("sampling_params", "{\"top_k\":-1}", |_| ()),
    ("sampling_params.cache_salt", "\"s\"", |r| r.kv.cache_salt = Some("s".into())),
    ("sampling_params.logprob_token_ids", "[9,5]", |r| {
        r.outputs.logprobs = Some(Candidates::Ids(vec![9, 5]));
    }),
    (
        "features",
        r#"{"mm_hashes":{"audio":["a"]},"mm_placeholders":{"audio":[{"offset":1,"length":2}]},"kwargs_data":{"audio":["AAE="]}}"#,
        |r| {
            r.media = Media::Features(Arc::new([MediaFeatures {
                modality: Modality::Audio,
                identifier: crate::media::media_identifier(Modality::Audio, &[0, 1]).into(),
                offset: 1,
                length: 2,
                is_embed: None,
                payload: Arc::new([0, 1]),
            }]));
        },
    ),
    ("content_parts", r#"[{"type":"video_url","url":"https://h/v","uuid":"u"}]"#, |r| {
        let named = "tito-raw:b02a724004c72eeb2e3176c75d87c36769298b447541b4f29cc0e24f24837442";
        let (url, identifier) = ("https://h/v".into(), Some(named.into()));
        r.media = Media::Raw(Arc::new([RawMedia { modality: Modality::Video, url, identifier }]));
    }),
    ("reasoning_ended", "false", |r| {
        r.reasoning = Some(Reasoning { ended: Some(false), chat_template_kwargs: None });
    }),
    ("reasoning_parser_kwargs", "{}", |_| ()),
    ("reasoning_parser_kwargs.chat_template_kwargs", "{\"enable_thinking\":true}", |r| {
        let kwargs = RawJson::new("{\"enable_thinking\":true}".into());
        r.reasoning = Some(Reasoning { ended: None, chat_template_kwargs: Some(kwargs) });
    }),
];

const COMPLETIONS_ONLY: &[(&str, &str, Change)] = &[
    ("prompt", "[[7,0]]", |r| r.prompt = [7, 0].into()),
    ("session_id", "\"s\"", |r| r.session = Some("s".into())),
    ("response_format.json_schema.schema", "{}", |r| r.sampling.structured = Some(JsonSchema("{}".into()))),
    ("logprob_token_ids", "[9]", |r| r.outputs.logprobs = Some(Candidates::Ids(vec![9]))),
];

#[track_caller]
fn check(subject: &Subject, sampling: &str, own: &[(&str, &str, Change)]) {
    let plain = bind(subject.format, &subject.body(&[])).unwrap().requests.remove(0);
    let mut seen: BTreeSet<String> = ELSEWHERE.split(' ').map(str::to_owned).collect();
    let common = COMMON.iter().map(|(path, json, change)| (format!("{sampling}{path}"), json, change));
    let rest = ENVELOPE.iter().chain(own).map(|(path, json, change)| ((*path).to_owned(), json, change));
    for (path, json, change) in common.chain(rest) {
        let mut body = subject.body(&[(&path, json)]);
        if path.starts_with("response_format.") {
            body = body.replace("{\"json_schema\"", "{\"type\":\"json_schema\",\"json_schema\"");
        }
        if path == "logprob_token_ids" {
            body = body.replace("{\"prompt\"", "{\"logprobs\":1,\"prompt\"");
        }
        let mut bound = bind(subject.format, &body).unwrap_or_else(|refusal| panic!("{body}: {refusal}"));
        let native = bound.requests[0].native_sampling.take();
        let verbatim =
            path.strip_prefix("sampling_params.").map(|_| body.split_once("sampling_params\":").unwrap().1);
        if let Some(verbatim) = verbatim {
            assert_eq!(native.as_deref().map(RawJson::as_str), verbatim.strip_suffix('}'), "{path}");
        }
        let mut expected = plain.clone();
        expected.native_sampling = None;
        change(&mut expected);
        assert_eq!(bound.requests, [expected], "{path}");
        seen.insert(path);
    }
    for (path, field) in subject.settable() {
        let executed = field.treatment == Treatment::Executed;
        assert!(!executed || seen.contains(&path), "{path} has no row here");
    }
}

#[test]
fn every_field_of_generate_reaches_the_request() {
    check(&GENERATE, "sampling_params.", GENERATE_ONLY);
}

#[test]
fn every_field_of_completions_reaches_the_request() {
    check(&COMPLETIONS, "", COMPLETIONS_ONLY);
}

/// The least body and these fields, with these facts from elsewhere.
fn bind_with(subject: &Subject, fields: &[(&str, &str)], context: &BindContext<'_>) -> Bound {
    subject.format.bind(subject.body(fields).as_bytes(), context).unwrap()
}

#[test]
fn sampling_defaults_are_explicit_or_left_to_the_engine() {
    use crate::SamplingDefaults::{Engine, Vllm};
    let catalog = catalog();
    for (subject, max_tokens, text) in [(&GENERATE, None, false), (&COMPLETIONS, Some(16), true)] {
        for (sampling_defaults, neutral) in [(Vllm, Some(1.0)), (Engine, None)] {
            let context = BindContext { sampling_defaults, ..context(&catalog) };
            let request = bind_with(subject, &[], &context).requests.remove(0);
            let sampling = &request.sampling;
            assert_eq!([sampling.temperature, sampling.top_p, sampling.repetition_penalty], [neutral; 3]);
            assert_eq!((sampling.top_k, sampling.min_p), (neutral.map(|_| 0), neutral.map(|_| 0.0)));
            assert_eq!((sampling.presence_penalty, sampling.frequency_penalty), (None, None));
            assert_eq!((request.stopping.max_tokens, request.outputs.text), (max_tokens, text));
        }
    }
}

#[test]
fn the_header_id_beats_the_body_and_the_fresh_one_is_last() {
    let catalog = catalog();
    for subject in [&GENERATE, &COMPLETIONS] {
        for (header, body, expected) in [
            (None, "null", "fresh"),
            (None, "\"b\"", "b"),
            (Some("h"), "\"b\"", "h"),
            (Some("h"), "null", "h"),
        ] {
            let header_id = header.map(|id| RequestId::parse(id).unwrap());
            let context = BindContext { header_id, ..context(&catalog) };
            let bound = bind_with(subject, &[("request_id", body)], &context);
            assert_eq!((bound.id.as_str(), bound.requests[0].id.as_str()), (expected, expected));
        }
    }
}

#[test]
fn session_and_pins_come_from_the_context() {
    let catalog = catalog();
    let worker = WorkerId::new("w");
    let in_body = [("session_id", "\"body\"")];
    for (subject, fields, header, session) in [
        (&GENERATE, &[][..], Some("s"), "s"),
        (&COMPLETIONS, &[], Some("s"), "s"),
        (&COMPLETIONS, &in_body, Some("s"), "s"),
        (&COMPLETIONS, &in_body, None, "body"),
    ] {
        let context =
            BindContext { session: header, rank: Some(3), worker: Some(&worker), ..context(&catalog) };
        let request = bind_with(subject, fields, &context).requests.remove(0);
        let pinned = (request.session.as_deref(), request.rank, request.worker.as_ref());
        assert_eq!(pinned, (Some(session), Some(3), Some(&worker)));
    }
}
