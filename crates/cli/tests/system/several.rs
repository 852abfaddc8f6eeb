//! Several continuations and several prompts in one reply: each told once, none mixed up, the prompt counted once.

use serde_json::{Value, json};

use crate::harness::{COMPLETIONS, GENERATE, generate, served};

#[tokio::test]
async fn two_continuations_tell_about_their_prompt_once() {
    let (_engine, serve) = served(&[], &[]).await;
    for stream in [false, true] {
        let mut body = generate("two", 5, stream);
        body["return_token_ids"] = json!(true);
        body["sampling_params"]["n"] = json!(2);
        if stream {
            body["stream_options"] = json!({ "include_usage": true });
        }
        let chunks = serve.post(GENERATE, &body).send().await.chunks();
        let told: Vec<&Value> = chunks.iter().filter_map(|chunk| chunk.get("prompt_token_ids")).collect();
        assert_eq!(told, [&body["token_ids"]], "{chunks:?}");
        let usage = &chunks.last().unwrap()["usage"];
        assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(3), &json!(10)));
    }
}

#[tokio::test]
async fn each_choice_is_what_its_prompt_and_its_seed_give_alone() {
    let (_engine, serve) = served(&[], &[]).await;
    let posted = async |prompt: Value, n: usize, seed: usize| {
        let body =
            json!({ "prompt": prompt, "max_tokens": 3, "n": n, "seed": seed, "return_token_ids": true });
        let reply = serve.post(COMPLETIONS, &body).send().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()
    };
    let prompts = [[21, 22, 23], [31, 32, 33]];
    let reply = posted(json!(prompts), 2, 1).await;
    assert_eq!(reply["usage"]["prompt_tokens"], 6);
    for index in 0..4 {
        let choice = &reply["choices"][index];
        assert_eq!(
            (&choice["index"], &choice["prompt_token_ids"]),
            (&json!(index), &json!(prompts[index / 2]))
        );
        // Continuation i draws with seed + i.
        let alone = posted(json!(prompts[index / 2]), 1, 1 + index % 2).await;
        assert_eq!(choice["token_ids"], alone["choices"][0]["token_ids"], "choice {index}");
    }
}
