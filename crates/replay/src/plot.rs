//! Reports as pictures: TTFT by policy, hit rates against what was possible, and balance. Pure text.

use std::fmt::{self, Write};

use tito_plot::{Axis, COLOURS, PAGE_STYLE, Panel, close_svg, line, open_svg, rectangle, text};

use crate::{PolicyReport, Report};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 760.0;
const LEFT: f64 = 64.0;
/// Shortest time to a first token that is drawn, seconds.
const TTFT_MIN_S: f64 = 1e-3;

/// One picture of all reports, one below the other, complete in itself.
pub fn svg(reports: &[Report]) -> String {
    let mut out = String::new();
    picture(&mut out, reports).expect("a string takes any text");
    out
}

/// A page with a picture and the numbers of each report.
pub fn html(reports: &[Report]) -> String {
    let mut out = String::new();
    page(&mut out, reports).expect("a string takes any text");
    out
}

fn picture(out: &mut String, reports: &[Report]) -> fmt::Result {
    let height = HEIGHT * reports.len().max(1) as f64;
    open_svg(out, WIDTH, height)?;
    for (index, report) in reports.iter().enumerate() {
        write!(out, "<g transform=\"translate(0 {})\">", HEIGHT * index as f64)?;
        draw(out, report)?;
        out.write_str("</g>")?;
    }
    close_svg(out)
}

fn draw(out: &mut String, report: &Report) -> fmt::Result {
    let title =
        format!("{} requests in {:.0} s on {} workers", report.requests, report.seconds, report.workers);
    text(out, LEFT, 26.0, "start", &format!("<tspan font-size=\"16\">{title}</tspan>"))?;
    legend(out, report)?;
    ttft(out, report, &Panel { left: LEFT, top: 96.0, width: WIDTH - LEFT - 32.0, height: 290.0 })?;
    let width = (WIDTH - LEFT - 32.0) / 2.0 - 40.0;
    hit_rates(out, report, &Panel { left: LEFT, top: 470.0, width, height: 230.0 })?;
    balance(out, report, &Panel { left: LEFT + width + 80.0, top: 470.0, width, height: 230.0 })
}

fn legend(out: &mut String, report: &Report) -> fmt::Result {
    for (index, (policy, colour)) in coloured(report).enumerate() {
        let x = LEFT + index as f64 * 140.0;
        rectangle(out, x, 42.0, 12.0, 12.0, &format!("fill=\"{colour}\""))?;
        text(out, x + 18.0, 52.0, "start", policy.policy)?;
    }
    Ok(())
}

/// Share of requests (upwards) whose first token came within a time (rightwards, logarithmic).
fn ttft(out: &mut String, report: &Report, panel: &Panel) -> fmt::Result {
    panel.title(out, "Requests with their first token within … seconds")?;
    let all = report.policies.iter().flat_map(|policy| policy.ttft_quantiles.iter().copied());
    let x = Axis::log(all.map(|seconds| seconds.max(TTFT_MIN_S)));
    let y = Axis::Linear { max: 100.0 };
    panel.grid_x(out, x, |seconds| format!("{seconds}"))?;
    for percent in [0.0, 25.0, 50.0, 75.0, 90.0, 100.0] {
        panel.level(out, panel.y(y, percent), &format!("{percent} %"))?;
    }
    for (policy, colour) in coloured(report) {
        let points = policy.ttft_quantiles.iter().zip(0_u32..);
        let points = points.map(|(seconds, percent)| (*seconds, f64::from(percent)));
        panel.curve(out, (x, y), points, &format!("stroke=\"{colour}\""))?;
    }
    Ok(())
}

/// One bar per policy; a short line is the best its placement allowed, the dashed one the best of any placement.
fn hit_rates(out: &mut String, report: &Report, panel: &Panel) -> fmt::Result {
    panel.title(out, "Prompt tokens found in cache; lines: caches that never forget")?;
    let shares = report.policies.iter().flat_map(|policy| [policy.hit_rate, policy.best.fleet]);
    let most = shares.chain([report.one_cache_hit_rate]).flatten().fold(0.0, f64::max);
    let axis = Axis::Linear { max: (most * 1.15).clamp(0.01, 1.0) };
    let y = |share: f64| panel.y(axis, share);
    panel.grid_y(out, axis, |share| format!("{:.0} %", share * 100.0))?;
    bars(out, report, panel, |policy| (y(policy.hit_rate.unwrap_or(0.0)), percent(policy.hit_rate)))?;
    for (index, policy) in report.policies.iter().enumerate() {
        let (x, width) = bar(report, panel, index);
        if let Some(best) = policy.best.fleet {
            line(out, x - 3.0, y(best), x + width + 3.0, "stroke=\"#222\" stroke-width=\"2\"")?;
        }
    }
    let style = "stroke=\"#222\" stroke-dasharray=\"6 4\"";
    match report.one_cache_hit_rate {
        Some(best) => line(out, panel.left, y(best), panel.left + panel.width, style),
        None => Ok(()),
    }
}

/// One bar per policy: the busiest worker against the mean.
fn balance(out: &mut String, report: &Report, panel: &Panel) -> fmt::Result {
    panel.title(out, "Prefill of the busiest worker, mean = 1")?;
    let most = report.policies.iter().filter_map(|policy| policy.balance.prefill).fold(1.0, f64::max);
    let axis = Axis::Linear { max: most * 1.15 };
    let y = |ratio: f64| panel.y(axis, ratio);
    panel.grid_y(out, axis, |ratio| format!("{ratio:.1}"))?;
    let label = |policy: &PolicyReport| number(policy.balance.prefill, "");
    bars(out, report, panel, |policy| (y(policy.balance.prefill.unwrap_or(0.0)), label(policy)))?;
    line(out, panel.left, y(1.0), panel.left + panel.width, "stroke=\"#222\" stroke-dasharray=\"6 4\"")
}

fn bars(
    out: &mut String,
    report: &Report,
    panel: &Panel,
    top_of: impl Fn(&PolicyReport) -> (f64, String),
) -> fmt::Result {
    for (index, (policy, colour)) in coloured(report).enumerate() {
        let (x, width) = bar(report, panel, index);
        let (y, label) = top_of(policy);
        let height = (panel.top + panel.height - y).max(0.0);
        rectangle(out, x, y, width, height, &format!("fill=\"{colour}\" fill-opacity=\"0.8\""))?;
        text(out, x + width / 2.0, panel.top + panel.height + 16.0, "middle", &label)?;
    }
    Ok(())
}

/// Left edge and width of a bar.
fn bar(report: &Report, panel: &Panel, index: usize) -> (f64, f64) {
    let step = panel.width / report.policies.len().max(1) as f64;
    (panel.left + step * (index as f64 + 0.2), step * 0.6)
}

fn coloured(report: &Report) -> impl Iterator<Item = (&PolicyReport, &'static str)> {
    report.policies.iter().zip(COLOURS.into_iter().cycle())
}

fn page(out: &mut String, reports: &[Report]) -> fmt::Result {
    write!(
        out,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>tito replay</title><style>{PAGE_STYLE}</style>"
    )?;
    for report in reports {
        picture(out, std::slice::from_ref(report))?;
        numbers(out, report)?;
    }
    out.write_str("</html>\n")
}

fn numbers(out: &mut String, report: &Report) -> fmt::Result {
    out.write_str(
        "<table><tr><th>policy<th>hit rate<th>best, its placement<th>best, one cache<th>wait p50<th>wait p99\
         <th>TTFT p50<th>p90<th>p99<th>balance",
    )?;
    for policy in &report.policies {
        let PolicyReport { hit_rate, best, wait, ttft, balance, .. } = policy;
        write!(
            out,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}",
            policy.policy,
            percent(*hit_rate),
            percent(best.fleet),
            percent(best.one_cache),
            number(wait.map(|wait| wait.p50), " s"),
            number(wait.map(|wait| wait.p99), " s"),
            number(ttft.map(|ttft| ttft.p50), " s"),
            number(ttft.map(|ttft| ttft.p90), " s"),
            number(ttft.map(|ttft| ttft.p99), " s"),
            number(balance.prefill, "")
        )?;
    }
    out.write_str("</table>")
}

/// A share, or a dash where there is none.
fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// A number with its unit, or a dash where there is none.
fn number(number: Option<f64>, unit: &str) -> String {
    number.map_or_else(|| "–".to_owned(), |number| format!("{number:.2}{unit}"))
}

#[cfg(test)]
mod tests;
