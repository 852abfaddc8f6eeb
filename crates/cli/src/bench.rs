//! `tito bench`: one measurement, or a comparison.

use std::process::ExitCode;

use crate::args::{Bench, BenchArgs};
use crate::process;

pub(crate) fn run(args: BenchArgs) -> ExitCode {
    let (json, quiet) = (args.json, args.quiet);
    let Bench { config, others, rounds } = match args.into_bench() {
        Ok(bench) => bench,
        Err(error) => return process::usage(&[format!("{error:#}")]),
    };
    let progress = tito_bench::bar(json || quiet);
    process::block_on_this_thread(async {
        if others.is_empty() {
            let report = tito_bench::run(&config, &progress).await?;
            print(&report, json)?;
            return Ok(exit(report.ok()));
        }
        let comparison = tito_bench::compare(&config, &others, rounds, &progress).await?;
        print(&comparison, json)?;
        Ok(exit(comparison.ok()))
    })
}

fn print<T: std::fmt::Display + serde::Serialize>(result: &T, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(result)?);
    } else {
        print!("{result}");
    }
    Ok(())
}

fn exit(ok: bool) -> ExitCode {
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
