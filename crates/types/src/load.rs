/// What one rank of an engine has to do, whoever sent it, as the engine says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineLoad {
    /// Global data-parallel rank.
    pub rank: u32,
    /// Requests it works on; each continuation is one.
    pub running: u32,
    /// Requests that wait at the engine.
    pub waiting: u32,
    /// Share of the rank's KV blocks that running requests hold, from 0 to 1. What is only cached is free.
    pub kv_usage: f64,
}
