use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

/// What `tito workers` takes.
#[derive(Debug, Args)]
#[command(
    after_help = "\
PREFILL and DECODE are tokens of what this server has in flight there: prompt tokens not computed yet, and tokens held by \
requests that generate. OTHERS, where engines' metrics are read, are requests and tokens there beyond those. BLOCKS are \
known to be cached: in device memory, + host memory, + storage where there are any. GAPS were seen in its KV events.",
    args_conflicts_with_subcommands = true
)]
pub(crate) struct WorkersArgs {
    #[command(subcommand)]
    pub(crate) action: Option<WorkersAction>,
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

#[derive(Debug, Subcommand)]
pub(crate) enum WorkersAction {
    /// Make workers drop what they have cached
    Reset(ResetArgs),
}

/// What `tito workers reset` takes.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("whose").required(true).args(["workers", "all"]), after_help = "\
Drops cached prefixes on every tier, media and encoder outputs, and forgets what was known of them. A worker with requests in \
flight is left alone without --running. The command fails when any worker did not drop its cache.")]
pub(crate) struct ResetArgs {
    /// Ids of the workers, as tito workers prints them
    #[arg(value_name = "WORKER")]
    pub(crate) workers: Vec<String>,
    /// Every worker
    #[arg(long)]
    pub(crate) all: bool,
    /// Also workers with requests in flight: they go on, and are computed again
    #[arg(long)]
    pub(crate) running: bool,
    /// Where tito serve takes orders (--control-port)
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8002", env = "TITO_CONTROL_URL")]
    pub(crate) url: String,
    /// File whose first key is presented, such as the server's --control-key-file
    #[arg(long, value_name = "FILE", env = "TITO_CONTROL_KEY_FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Print the server's JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}
