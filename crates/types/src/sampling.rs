use crate::TokenId;

/// How the next token is drawn. `None` leaves the value to the engine.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sampling {
    /// 0 is greedy. vLLM's gRPC reads an absent temperature as 0.
    pub temperature: Option<f32>,
    /// (0, 1].
    pub top_p: Option<f32>,
    /// 0 turns the limit off.
    pub top_k: Option<u32>,
    /// [0, 1].
    pub min_p: Option<f32>,
    /// Any 64-bit value.
    pub seed: Option<i64>,
    /// [−2, 2].
    pub presence_penalty: Option<f32>,
    /// [−2, 2].
    pub frequency_penalty: Option<f32>,
    /// Above 0.
    pub repetition_penalty: Option<f32>,
    /// Added to the logits of these tokens, in the client's order.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Only these tokens may be drawn; empty means all.
    pub allowed_token_ids: Vec<TokenId>,
    /// Sequences that may not be completed; none is empty.
    pub bad_words_token_ids: Vec<Vec<TokenId>>,
    /// Grammar the output must follow.
    pub structured: Option<StructuredOutput>,
    /// vLLM's watermarking switch; absent means on where the engine has it.
    pub watermarking: Option<bool>,
}

/// At most one constraint on the shape of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StructuredOutput {
    /// A JSON schema, as JSON text.
    JsonSchema(String),
    /// Any JSON object.
    JsonObject,
    /// A regular expression.
    Regex(String),
    /// One of these strings; never empty.
    Choice(Vec<String>),
    /// A context-free grammar.
    Grammar(String),
    /// vLLM's structural tag, as JSON text.
    StructuralTag(String),
}

/// When generation ends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stopping {
    /// Output budget in tokens; absent means the engine's default (rest of the context). Never 0.
    pub max_tokens: Option<u32>,
    /// End-of-sequence and stop tokens are masked until this many output tokens.
    pub min_tokens: u32,
    /// Strings that end the output when they appear in its text.
    pub stop: Vec<String>,
    /// Tokens that end the output.
    pub stop_token_ids: Vec<TokenId>,
    /// Keep the stop string in the text.
    pub include_stop_str_in_output: bool,
    /// Do not end at the model's end-of-sequence tokens.
    pub ignore_eos: bool,
    /// Tokens the model may think for; −1 is unlimited, 0 closes thinking at once.
    pub thinking_token_budget: Option<i64>,
}

/// Which tokens' log-probs are reported beside the sampled (or scored) one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Candidates {
    /// The most likely n; 0 reports the sampled token alone.
    Top(u32),
    /// The whole vocabulary.
    All,
    /// Exactly these tokens.
    Ids(Vec<TokenId>),
}
