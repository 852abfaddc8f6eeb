//! Several continuations and several prompts in one reply: each told once, none mixed up, the prompt counted once.

use serde_json::{Value, json};

use crate::harness::{COMPLETIONS, GENERATE, MockEngine, Serve};

const PROMPT: [u32; 4] = [11, 12, 13, 14];

async fn posted(serve: &Serve, path: &str, body: &Value) -> Value {
    let reply = serve.post(path, body).send().await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

#[tokio::test]
async fn two_continuations_tell_about_their_prompt_once() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    let body = json!({
        "token_ids": PROMPT,
        "return_token_ids": true,
        "sampling_params": {"max_tokens": 5, "n": 2, "seed": 7, "prompt_logprobs": 1},
    });
    let reply = posted(&serve, GENERATE, &body).await;
    assert_eq!(reply["prompt_token_ids"], json!(PROMPT));
    assert_eq!(reply["prompt_logprobs"].as_array().map(Vec::len), Some(PROMPT.len()));
    assert_eq!(reply["usage"]["prompt_tokens"], 4);
    assert_eq!(reply["usage"]["completion_tokens"], 10);

    // Child i draws with seed + i, so each is the single reply to that seed.
    for (index, seed) in [(0, 7), (1, 8)] {
        let alone = json!({"token_ids": PROMPT, "sampling_params": {"max_tokens": 5, "seed": seed}});
        let alone = posted(&serve, GENERATE, &alone).await;
        assert_eq!(reply["choices"][index]["token_ids"], alone["choices"][0]["token_ids"], "choice {index}");
        assert_eq!(reply["choices"][index]["index"], index);
    }
}

#[tokio::test]
async fn a_stream_of_two_continuations_gives_the_prompt_once() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    let body = json!({
        "token_ids": PROMPT,
        "stream": true,
        "return_token_ids": true,
        "sampling_params": {"max_tokens": 5, "n": 2, "seed": 7},
    });
    let reply = serve.post(GENERATE, &body).send().await;
    let chunks = reply.chunks();
    let told: Vec<_> = chunks.iter().filter_map(|chunk| chunk.get("prompt_token_ids")).collect();
    assert_eq!(told, [&json!(PROMPT)]);
    for index in [0, 1] {
        let own = chunks.iter().flat_map(|chunk| chunk["choices"].as_array().cloned().unwrap_or_default());
        let tokens: usize = own
            .filter(|choice| choice["index"] == index)
            .map(|choice| choice["token_ids"].as_array().map_or(0, Vec::len))
            .sum();
        assert_eq!(tokens, 5, "choice {index}");
    }
}

#[tokio::test]
async fn choices_of_several_prompts_are_numbered_prompt_by_prompt() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    let prompts = [[21, 22, 23], [31, 32, 33]];
    let body = json!({
        "prompt": prompts, "max_tokens": 3, "n": 2, "seed": 1, "return_token_ids": true, "temperature": 0.0,
    });
    let reply = posted(&serve, COMPLETIONS, &body).await;
    assert_eq!(reply["usage"]["prompt_tokens"], 6);
    for index in 0..4 {
        let choice = &reply["choices"][index];
        assert_eq!(choice["index"], index);
        assert_eq!(choice["prompt_token_ids"], json!(prompts[index / 2]), "choice {index}");
        let alone = json!({
            "prompt": prompts[index / 2], "max_tokens": 3, "seed": 1 + index % 2, "return_token_ids": true,
            "temperature": 0.0,
        });
        let alone = posted(&serve, COMPLETIONS, &alone).await;
        assert_eq!(choice["token_ids"], alone["choices"][0]["token_ids"], "choice {index}");
    }
}
