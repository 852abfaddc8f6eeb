use std::path::PathBuf;

use clap::Args;

/// What `tito workers` takes.
#[derive(Debug, Args)]
#[command(after_help = "\
PREFILL and DECODE are tokens of what this server has in flight there: prompt tokens not computed yet, and tokens held by \
requests that generate. BLOCKS are known to be cached: in device memory, + host memory, + storage where there are any. \
GAPS were seen in its KV events.")]
pub(crate) struct WorkersArgs {
    /// Where tito serve listens
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8000", env = "TITO_URL")]
    pub(crate) url: String,
    /// File whose first key is presented, such as the server's --api-key-file
    #[arg(long, value_name = "FILE", env = "TITO_KEY_FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Print the server's JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}
