use clap::Args;

/// What `tito demo` takes.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value = "8000", env = "TITO_PORT")]
    pub(crate) port: u16,
    /// Simulated engines
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) engines: u16,
    /// End after the requests instead of staying up
    #[arg(long)]
    pub(crate) exit: bool,
}
