//! What each request of `tito bench` asks for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use tito_bench::{
    DataSet, InputError, Lengths, LineOrder, PrefixConfig, PromptSource, SessionConfig, Span, TimeSpan,
    Trace, WorkloadConfig, defaults,
};

use crate::units;

#[derive(Debug, Args)]
#[command(next_help_heading = "Work")]
pub(super) struct WorkArgs {
    /// Ask for server-sent events
    #[arg(long, alias = "streaming")]
    stream: bool,
    /// Prompt length in tokens
    ///
    /// N, A-B, normal:MEAN,STDDEV, lognormal:MEAN,STDDEV, or a set N:WEIGHT,N:WEIGHT,…
    #[arg(long, value_name = "LENGTHS", aliases = ["isl", "random-input-len"], default_value_t = defaults::PROMPT_TOKENS, conflicts_with_all = ["dataset", "trace"])]
    prompt_tokens: Lengths,
    /// Tokens to generate
    ///
    /// In the forms of --prompt-tokens.
    #[arg(long, value_name = "LENGTHS", aliases = ["osl", "random-output-len"], default_value_t = defaults::OUTPUT_TOKENS)]
    output_tokens: Lengths,
    /// Range that prompt ids are drawn from
    #[arg(long, hide_short_help = true, value_name = "A-B", default_value_t = defaults::IDS)]
    ids: Span,
    /// Leading tokens that the requests of a group share
    #[arg(long, value_name = "N", default_value = "0", conflicts_with_all = ["dataset", "trace"])]
    prefix_tokens: u32,
    /// Number of different prefixes
    #[arg(long, value_name = "N", default_value = "1")]
    prefix_groups: u32,
    /// Consecutive requests of one group before the next group's turn
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "1")]
    prefix_siblings: u32,
    /// Prompts to send
    ///
    /// A JSON object a line: {"token_ids": [1, 2], "output_tokens": 3}
    #[arg(long, aliases = ["dataset-path", "input-file"], value_name = "FILE", conflicts_with = "trace")]
    dataset: Option<PathBuf>,
    /// Recorded requests to send, in Mooncake's format
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Tokens that one id of the trace stands for
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = BLOCK_TOKENS, value_parser = clap::value_parser!(u32).range(1..=BLOCK_TOKENS_MAX), requires = "trace")]
    trace_block_tokens: u32,
    /// Sessions of so many turns
    ///
    /// Each turn asks with the last prompt, its answer and new ids.
    #[arg(long, aliases = ["conversation-turn-mean", "session-turns-mean"], value_name = "N|A-B", conflicts_with = "trace")]
    turns: Option<Span>,
    /// Sessions: new ids of every turn after the first, in tokens
    #[arg(long, hide_short_help = true, value_name = "LENGTHS", default_value = "64", requires = "turns")]
    turn_tokens: Lengths,
    /// Sessions: pause from a reply to the next turn
    #[arg(long, hide_short_help = true, value_name = "TIME|A-B", default_value = "0", value_parser = think_time, requires = "turns")]
    think_time: TimeSpan,
    /// Let the engine end a reply early
    #[arg(long, hide_short_help = true)]
    no_ignore_eos: bool,
    /// Equal seeds give equal requests at equal times
    #[arg(long, alias = "random-seed", value_name = "N", default_value = "0")]
    seed: u64,
}

/// `TIME` or `TIME-TIME`.
fn think_time(text: &str) -> Result<TimeSpan, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (units::duration(first)?, units::duration(last)?);
    if first > last {
        Err("the range ends before it begins".to_owned())
    } else {
        Ok(TimeSpan { first, last })
    }
}

/// Tokens per block of the traces published with Mooncake.
const BLOCK_TOKENS: u32 = 512;
/// Most tokens per block.
const BLOCK_TOKENS_MAX: i64 = 1 << 20;

impl WorkArgs {
    /// Reads the file of requests, if one is named; of a trace no more than so many lines.
    pub(super) fn workload(&self, requests: Option<u64>) -> Result<WorkloadConfig, InputError> {
        Ok(WorkloadConfig {
            prompts: self.prompts(requests)?,
            session: self.session(),
            output_tokens: self.output_tokens.clone(),
            ids: self.ids,
            ignore_eos: !self.no_ignore_eos,
            stream: self.stream,
            seed: self.seed,
            prompt_seed: self.seed,
        })
    }

    /// The options that name a file to be read, with the file.
    pub(super) fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [("--dataset", &self.dataset), ("--trace", &self.trace)];
        files.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?)))
    }

    fn session(&self) -> Option<SessionConfig> {
        let (turns, turn_tokens, think_time) = (self.turns?, self.turn_tokens.clone(), self.think_time);
        Some(SessionConfig { turns, turn_tokens, think_time })
    }

    fn prompts(&self, requests: Option<u64>) -> Result<PromptSource, InputError> {
        if let Some(path) = &self.dataset {
            let set = Arc::new(DataSet::read(path)?);
            return Ok(PromptSource::DataSet { set, order: LineOrder::FILE });
        }
        if let Some(path) = &self.trace {
            let trace = Trace::read(path, requests, self.trace_block_tokens)?;
            return Ok(PromptSource::Trace { trace: Arc::new(trace) });
        }
        let prefix = PrefixConfig {
            groups: self.prefix_groups,
            tokens: self.prefix_tokens,
            siblings: self.prefix_siblings,
        };
        Ok(PromptSource::Random { prompt_tokens: self.prompt_tokens.clone(), prefix })
    }
}
