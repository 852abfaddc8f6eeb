mod siblings;

use tito_engine::fake::{Fake, Script, last, tokens};
use tito_types::{Placement, PromptOutput, RawJson, WorkerId};

use super::*;
use crate::admit::tests::request;

fn two_tokens() -> Fake {
    Fake::new(|request| {
        let seed = request.sampling.seed.unwrap_or(0) as u32;
        let prompt = Some(Box::new(PromptOutput { prompt_tokens: 1, ..PromptOutput::default() }));
        let first = Delta { prompt, ..tokens(0, &[seed]) };
        Script { items: vec![Ok(first), Ok(last(0, &[seed + 100], 2))], ..Script::default() }
    })
}

#[tokio::test]
async fn children_draw_with_their_own_seed_and_only_the_first_reports_on_the_prompt() {
    let fake = two_tokens();
    let mut asked = request(3);
    asked.sampling.seed = Some(7);
    asked.outputs.prompt_token_ids = true;
    let mut stream = Fanout::new(fake.clone(), 8).generate(asked).await.expect("accepted");
    let (mut seen, mut told) = (vec![Vec::new(); 3], 0);
    while let Some(item) = stream.next().await {
        let delta = item.expect("no child fails");
        told += usize::from(delta.prompt.is_some());
        seen[delta.index as usize].extend(delta.token_ids);
    }
    assert_eq!(told, 1, "the reply tells about the prompt once");
    assert_eq!(seen, [[7, 107], [8, 108], [9, 109]]);
    let children = fake.seen();
    assert!(children.iter().all(|child| child.n == 1));
    assert_eq!(
        children.iter().map(|child| child.outputs.prompt_token_ids).collect::<Vec<_>>(),
        [true, false, false]
    );
}

/// Says that every request was sent to the worker of its seed.
struct Placed(Fake);

impl Engine for Placed {
    async fn generate(&self, request: GenerateRequest) -> Result<TokenStream, EngineError> {
        let worker = WorkerId::new(&request.sampling.seed.unwrap_or(0).to_string());
        let place = Placement {
            worker,
            rank: None,
            prompt_tokens: 1,
            overlap_tokens: 0,
            predicted_tokens: 0,
            rule: "policy",
        };
        Ok(self.0.generate(request).await?.placed(place))
    }
}

#[tokio::test]
async fn the_children_of_one_prompt_are_in_the_place_of_the_first() {
    for n in [1, 3] {
        let mut asked = request(n);
        asked.sampling.seed = Some(7);
        let stream = Fanout::new(Placed(two_tokens()), 8).generate(asked).await.expect("accepted");
        let place = stream.placement().expect("one prompt has one place");
        assert_eq!(place.worker, WorkerId::new("7"), "n = {n}");
    }
}

#[track_caller]
fn check(change: impl FnOnce(&mut GenerateRequest), expected: &str) {
    let mut asked = request(3);
    change(&mut asked);
    let found = children_of(&asked, 4).map(|children| children.len());
    assert_eq!(found.map_or_else(|error| error.to_string(), |children| children.to_string()), expected);
}

#[test]
fn what_cannot_be_fanned_out_is_refused_by_name() {
    check(|_| {}, "3");
    check(|asked| asked.n = 4, "4");
    check(|asked| asked.n = 5, "n: must be between 1 and 4, what the engine runs at a time");
    check(|asked| asked.n = 0, "n: must be between 1 and 4, what the engine runs at a time");
    check(
        |asked| asked.sampling.seed = Some(i64::MAX - 1),
        "seed: must leave room for n = 3: continuation i draws with seed + i",
    );
    check(
        |asked| asked.kv.transfer_params = Some(RawJson::new("{}".into())),
        "n: must be 1 with transfer parameters: a hand-off serves one continuation",
    );
}
