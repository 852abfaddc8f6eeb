//! The targets of `tito bench`, and the options that hold for one of them or for all.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use serde_json::{Map, Value};
use tito_bench::{Api, ApiKey, Header, Target, Trust};

#[derive(Debug, Args)]
#[command(next_help_heading = "Target (NAME= for that one only)")]
pub(super) struct TargetArgs {
    /// Server to measure, by http:// or https://; several are compared in interleaved rounds
    #[arg(value_name = "[NAME=]URL", required = true)]
    url: Vec<String>,
    /// Route to drive: generate or completions
    #[arg(long, value_name = "[NAME=]ROUTE", default_value = "generate")]
    api: Vec<String>,
    /// Model to name in each request
    #[arg(long, value_name = "[NAME=]MODEL")]
    model: Vec<String>,
    /// Key to present
    #[arg(long, value_name = "KEY", env = "TITO_BENCH_API_KEY", hide_env_values = true)]
    api_key: Option<ApiKey>,
    /// Header to send with every request; repeatable
    #[arg(long, short = 'H', value_name = "[NAME=]HEADER: VALUE")]
    header: Vec<String>,
    /// JSON object merged into each body
    #[arg(long, alias = "extra-body", value_name = "[NAME=]JSON")]
    body: Vec<String>,
    /// PEM file of the authorities that the server's certificate may be from
    #[arg(long, hide_short_help = true, value_name = "[NAME=]FILE")]
    cacert: Vec<String>,
    /// Accept any certificate
    #[arg(long, conflicts_with = "cacert")]
    insecure: bool,
    /// Processes whose CPU and memory are read
    #[arg(long, value_name = "[NAME=]PID[,PID]")]
    pid: Vec<String>,
}

impl TargetArgs {
    /// What is to be said before a measurement that should not be believed blindly.
    pub(super) fn warning(&self) -> Option<&'static str> {
        self.insecure
            .then_some("--insecure: certificates are not checked, so anyone may answer for the server")
    }

    pub(super) fn targets(&self) -> anyhow::Result<Vec<Target>> {
        let names: Vec<_> = self.url.iter().map(|text| named(text, &[])).collect();
        let names: Vec<&str> = names.into_iter().map(|(name, url)| name.unwrap_or(url)).collect();
        let targets =
            self.url.iter().zip(&names).map(|(text, name)| self.target(name, named(text, &[]).1, &names));
        targets.collect()
    }

    fn target(&self, name: &str, url: &str, names: &[&str]) -> anyhow::Result<Target> {
        let api = of(name, &self.api, names).last().map_or(Ok(Api::Generate), str::parse)?;
        let extra_body = match of(name, &self.body, names).last() {
            Some(json) => serde_json::from_str::<Map<String, Value>>(json)
                .map_err(|_| anyhow!("--body {json}: must be a JSON object"))?,
            None => Map::new(),
        };
        let headers = of(name, &self.header, names)
            .map(|text| text.parse::<Header>().map_err(|error| anyhow!("--header: {error}")));
        let pids = of(name, &self.pid, names).flat_map(|list| list.split(','));
        let pids = pids.map(|pid| pid.parse().map_err(|_| anyhow!("--pid {pid}: not a process id")));
        let mut pids: Vec<u32> = pids.collect::<anyhow::Result<_>>()?;
        let mut seen = BTreeSet::new();
        pids.retain(|pid| seen.insert(*pid));
        let trust = match of(name, &self.cacert, names).last() {
            _ if self.insecure => Trust::Anyone,
            Some(path) => Trust::File(PathBuf::from(path)),
            None => Trust::PublicRoots,
        };
        Ok(Target {
            name: name.to_owned(),
            url: url.to_owned(),
            api,
            model: of(name, &self.model, names).last().map(str::to_owned),
            api_key: self.api_key.clone(),
            headers: headers.collect::<anyhow::Result<_>>()?,
            trust,
            extra_body,
            pids,
        })
    }
}

/// The values that hold for one target: those for all, then those for it by name, which therefore come last.
fn of<'a>(target: &'a str, values: &'a [String], names: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let values = move |own: bool| {
        values.iter().map(|text| named(text, names)).filter_map(move |(name, value)| match name {
            None => (!own).then_some(value),
            Some(name) => (own && name == target).then_some(value),
        })
    };
    values(false).chain(values(true))
}

/// `NAME=VALUE`. A URL's own `=` does not count; elsewhere only the names of targets do.
fn named<'a>(text: &'a str, names: &[&str]) -> (Option<&'a str>, &'a str) {
    match text.split_once('=') {
        Some((name, value)) if names.contains(&name) => (Some(name), value),
        Some((name, value)) if names.is_empty() && !name.contains([':', '/']) => (Some(name), value),
        _ => (None, text),
    }
}
