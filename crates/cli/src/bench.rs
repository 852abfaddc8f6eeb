//! `tito bench`: one measurement, a comparison, or a rate sweep.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use tito_bench::{Export, ExportWriter, Progress, comparison_html, run_html, sweep_html};

use crate::args::{Bench, BenchArgs};
use crate::process;

pub(crate) fn run(args: BenchArgs) -> ExitCode {
    if let Some(warning) = args.warning() {
        eprintln!("tito: WARNING {warning}");
    }
    let quiet = args.results.json || args.results.quiet;
    let export = args.results.export.clone();
    let output = Output { json: args.results.json, html: args.results.html.clone() };
    let Bench { config, others, rounds, sweep } = match args.into_bench() {
        Ok(bench) => bench,
        Err(error) => return process::usage(&[format!("{error:#}")]),
    };
    process::block_on_this_thread(async {
        let (progress, exported) = progress(quiet, export.as_deref())?;
        let ok = if let Some(sweep) = sweep {
            let sweep = tito_bench::sweep(&config, sweep, &progress).await?;
            output.show(&sweep, sweep_html)?;
            sweep.ok()
        } else if others.is_empty() {
            let report = tito_bench::run(&config, &progress).await?;
            output.show(&report, run_html)?;
            report.ok()
        } else {
            let comparison = tito_bench::compare(&config, &others, rounds, &progress).await?;
            output.show(&comparison, comparison_html)?;
            comparison.ok()
        };
        if let Some((export, writer)) = exported {
            export.finish(writer)?;
        }
        Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

type Exported = Option<(Arc<Export>, ExportWriter)>;

/// The bar, behind the export where there is one.
fn progress(quiet: bool, export: Option<&Path>) -> anyhow::Result<(Arc<dyn Progress>, Exported)> {
    let bar = tito_bench::bar(quiet);
    let Some(path) = export else { return Ok((bar, None)) };
    let created = Export::create(path, bar).with_context(|| format!("--export {}", path.display()));
    let (export, writer) = created?;
    Ok((Arc::<Export>::clone(&export), Some((export, writer))))
}

/// Where a result goes.
struct Output {
    json: bool,
    html: Option<PathBuf>,
}

impl Output {
    /// A page that cannot be written costs the page only.
    fn show<T: std::fmt::Display + serde::Serialize>(
        &self,
        result: &T,
        html: impl Fn(&T) -> String,
    ) -> anyhow::Result<()> {
        if self.json {
            process::print(&format!("{}\n", serde_json::to_string_pretty(result)?))?;
        } else {
            process::print(&result.to_string())?;
        }
        if let Some(path) = &self.html {
            std::fs::write(path, html(result)).with_context(|| format!("--html {}", path.display()))?;
        }
        Ok(())
    }
}
