//! `tito check`: the settings of serve, and where each came from.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::ArgMatches;
use serde::Serialize;

use crate::args::CheckArgs;
use crate::layers::{self, Layered, Origin, is_setting};
use crate::settings::{settings, shown};
use crate::{process, sub};

/// A longer value makes no column wider.
const COLUMN_CHARS_MAX: usize = 60;
/// Settings whose value is never shown.
const SECRETS: [&str; 2] = ["api_key", "control_key"];

#[derive(Serialize)]
struct Row {
    setting: String,
    value: String,
    origin: Origin,
}

pub(crate) fn run(args: &CheckArgs, argv: &[OsString]) -> ExitCode {
    let (command, rest) = sub("check", argv);
    let layered = match Layered::read(&command, &rest) {
        Ok(layered) => layered,
        Err(error) => return unreadable(args.json, &error.problems()),
    };
    let rows: Vec<_> =
        command.get_arguments().filter(|arg| is_setting(arg)).map(|arg| row(arg, &layered)).collect();
    let problems = settings(&args.serve).err().unwrap_or_default();
    show(args.json, &rows, &problems)
}

/// What was said could not be read.
pub(crate) fn unreadable(json: bool, problems: &[String]) -> ExitCode {
    show(json, &[], problems)
}

/// Prints what is set and what is wrong with it.
fn show(json: bool, rows: &[Row], problems: &[String]) -> ExitCode {
    let text = match (json, rows) {
        (true, rows) => format!("{:#}\n", serde_json::json!({ "settings": rows, "problems": problems })),
        (false, []) => String::new(),
        (false, rows) => table(rows),
    };
    if let Err(error) = process::print(&text) {
        return process::failed(&error);
    }
    told(problems)
}

/// Prints which variables no command reads, every problem, and how it ended.
fn told(problems: &[String]) -> ExitCode {
    for name in layers::unknown_variables() {
        eprintln!("tito: {name} in the environment is ignored: no command knows it");
    }
    if problems.is_empty() {
        eprintln!("tito: nothing is wrong");
        return ExitCode::SUCCESS;
    }
    let exit = process::usage(problems);
    let count = problems.len();
    eprintln!("tito: {count} {}", if count == 1 { "problem" } else { "problems" });
    exit
}

fn row(arg: &clap::Arg, layered: &Layered) -> Row {
    let id = arg.get_id().as_str();
    let setting = arg.get_long().unwrap_or(id).to_owned();
    Row { setting, value: value(&layered.matches, id), origin: layered.origin(id) }
}

fn value(matches: &ArgMatches, id: &str) -> String {
    let texts: Vec<_> = matches
        .get_raw(id)
        .into_iter()
        .flatten()
        .map(|text| match id {
            id if SECRETS.contains(&id) => "***".to_owned(),
            "engine" => shown(&text.to_string_lossy()),
            _ => text.to_string_lossy().into_owned(),
        })
        .collect();
    texts.join(" ")
}

fn table(rows: &[Row]) -> String {
    let width = |of: fn(&Row) -> usize, least: usize| {
        rows.iter().map(of).filter(|chars| *chars <= COLUMN_CHARS_MAX).max().unwrap_or(0).max(least)
    };
    let (first, second) =
        (width(|row| row.setting.chars().count(), 7), width(|row| row.value.chars().count(), 5));
    let line =
        |setting: &str, value: &str, origin: &str| format!("{setting:first$}  {value:second$}  {origin}\n");
    let body = rows.iter().map(|row| {
        let origin = match row.origin {
            Origin::Flag => "flag",
            Origin::Env => "environment",
            Origin::File => "file",
            Origin::Default => "default",
        };
        line(&row.setting, &row.value, origin)
    });
    line("SETTING", "VALUE", "ORIGIN") + &body.collect::<String>()
}
