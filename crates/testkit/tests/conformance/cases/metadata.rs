//! What is read from the metadata of a call.

use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Request};
use vllm_proto::GenerateRequest;

use crate::ask::{greedy, prompt};
use crate::target::Target;

const RANK: &str = "x-data-parallel-rank";

fn with(metadata: &[(&'static str, &str)]) -> Request<GenerateRequest> {
    let mut request = Request::new(greedy(&prompt(20, 1), 2));
    let map: &mut MetadataMap = request.metadata_mut();
    for (key, value) in metadata {
        map.append(*key, value.parse::<MetadataValue<_>>().expect("visible ASCII"));
    }
    request
}

/// How a unary and a streaming call with this metadata begin: alike, or the case fails.
async fn outcome(target: &Target, metadata: &[(&'static str, &str)]) -> Result<(), Code> {
    let unary = target.inference().generate(with(metadata)).await.map(|_| ()).map_err(|status| status.code());
    let stream = target.inference().generate_stream(with(metadata)).await;
    assert_eq!(stream.map(|_| ()).map_err(|status| status.code()), unary, "stream and unary, {metadata:?}");
    unary
}

pub(crate) async fn a_rank_that_is_served_is_accepted(target: &Target) {
    assert_eq!(outcome(target, &[]).await, Ok(()), "no rank");
    for rank in ["0", " 0 ", "00"] {
        assert_eq!(outcome(target, &[(RANK, rank)]).await, Ok(()), "{rank:?}");
    }
}

pub(crate) async fn a_rank_that_is_not_served_is_refused(target: &Target) {
    for rank in ["1", "7", "4294967295"] {
        assert_eq!(outcome(target, &[(RANK, rank)]).await, Err(Code::InvalidArgument), "{rank:?}");
    }
}

pub(crate) async fn a_rank_that_is_no_number_is_refused(target: &Target) {
    for rank in ["", "abc", "-1", "0x0", "1.0", "4294967296"] {
        assert_eq!(outcome(target, &[(RANK, rank)]).await, Err(Code::InvalidArgument), "{rank:?}");
    }
}

pub(crate) async fn the_first_of_two_ranks_counts(target: &Target) {
    assert_eq!(outcome(target, &[(RANK, "0"), (RANK, "7")]).await, Ok(()));
    assert_eq!(outcome(target, &[(RANK, "7"), (RANK, "0")]).await, Err(Code::InvalidArgument));
}

pub(crate) async fn other_metadata_is_ignored(target: &Target) {
    let expected = target.unary(greedy(&prompt(20, 1), 2)).await.unwrap();
    let metadata = [
        ("authorization", "Bearer wrong"),
        ("x-request-id", "other"),
        ("x-session-id", "s"),
        ("x-unknown", "1"),
    ];
    let reply = target.inference().generate(with(&metadata)).await.unwrap().into_inner();
    assert_eq!(reply.outputs.expect("output").token_ids, expected.tokens());
}
