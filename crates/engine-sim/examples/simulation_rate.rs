//! How many requests of 512 ids in and 16 out one core simulates per second:
//! `cargo run --release -p tito-engine-sim --example simulation_rate`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tito_engine_sim::{
    Model, ModelConfig, RequestId, SchedulingPolicy, SimConfig, SimRequest, Simulation, Step, Timing,
};

const REQUESTS: u64 = 100_000;
const PROMPT_TOKENS: u32 = 512;
const OUTPUT_TOKENS: u32 = 16;

#[expect(clippy::print_stdout, reason = "the number is what this is for")]
fn main() {
    let model = ModelConfig {
        seed: 1,
        vocabulary_rows: 1024,
        ordinary_ids: 1000,
        eos_id: 1002,
        eos_probability: 0.0,
    };
    let config = SimConfig {
        block_tokens: 32,
        blocks: 32_768,
        max_sequence_tokens: 2048,
        max_running: 512,
        max_step_tokens: 16_384,
        max_waiting: 1024,
        policy: SchedulingPolicy::Fcfs,
        kv_events: false,
        timing: Timing::INSTANT,
    };
    let mut simulation = Simulation::new(config, Arc::new(Model::new(model)));
    let mut step = Step::default();
    let (mut submitted, mut ended, mut tokens) = (0, 0, 0);
    let started = Instant::now();
    while ended < REQUESTS {
        while submitted < REQUESTS && submitted - ended < 512 {
            let prompt = (0..PROMPT_TOKENS).map(|index| (index * 7 + submitted as u32) % 1000).collect();
            let request = SimRequest::new(RequestId(submitted), prompt, OUTPUT_TOKENS);
            simulation.submit(request).expect("the queue is longer than what is in flight");
            submitted += 1;
        }
        simulation.step(Duration::ZERO, &mut step);
        tokens += step.tokens.len();
        ended += step.outputs.iter().filter(|output| output.finish.is_some()).count() as u64;
    }
    let seconds = started.elapsed().as_secs_f64();
    let (requests, tokens) = (REQUESTS as f64 / seconds, tokens as f64 / seconds);
    println!("{requests:.0} requests/s, {tokens:.0} tokens/s");
}
