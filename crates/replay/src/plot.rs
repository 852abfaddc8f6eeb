//! Reports as pictures: TTFT by policy, hit rates against what was possible, and balance. Pure text.

use std::fmt::{self, Write};

use crate::{PolicyReport, Report};

/// Colours told apart by most eyes, one per policy in order.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 760.0;
const LEFT: f64 = 64.0;

/// Where a panel draws.
struct Panel {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

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
    write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
    )?;
    for (index, report) in reports.iter().enumerate() {
        write!(out, "<g transform=\"translate(0 {})\">", HEIGHT * index as f64)?;
        draw(out, report)?;
        out.write_str("</g>")?;
    }
    out.write_str("</svg>")
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
        write!(out, "<rect x=\"{x}\" y=\"42\" width=\"12\" height=\"12\" fill=\"{colour}\"/>")?;
        text(out, x + 18.0, 52.0, "start", policy.policy)?;
    }
    Ok(())
}

/// Share of requests (upwards) whose first token came within a time (rightwards, logarithmic).
fn ttft(out: &mut String, report: &Report, panel: &Panel) -> fmt::Result {
    frame(out, panel, "Requests with their first token within … seconds")?;
    let all = || report.policies.iter().flat_map(|policy| policy.ttft_quantiles.iter().copied());
    let least = all().fold(f64::INFINITY, f64::min).clamp(1e-3, 1e6).log10().floor();
    let most = all().fold(0.0, f64::max).clamp(1e-3, 1e6).log10().ceil().max(least + 1.0);
    let x = |seconds: f64| {
        let place = (seconds.max(1e-9).log10() - least) / (most - least);
        panel.left + panel.width * place.clamp(0.0, 1.0)
    };
    let y = |percent: f64| panel.top + panel.height * (1.0 - percent / 100.0);
    for decade in least as i32..=most as i32 {
        let seconds = 10f64.powi(decade);
        grid_x(out, panel, x(seconds), &format!("{seconds}"))?;
    }
    for percent in [0.0, 25.0, 50.0, 75.0, 90.0, 100.0] {
        grid_y(out, panel, y(percent), &format!("{percent} %"))?;
    }
    for (policy, colour) in coloured(report) {
        write!(out, "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"")?;
        for (percent, seconds) in policy.ttft_quantiles.iter().enumerate() {
            write!(out, "{:.1},{:.1} ", x(*seconds), y(percent as f64))?;
        }
        out.write_str("\"/>")?;
    }
    Ok(())
}

/// One bar per policy; a short line is the best its placement allowed, the dashed one the best of any placement.
fn hit_rates(out: &mut String, report: &Report, panel: &Panel) -> fmt::Result {
    frame(out, panel, "Prompt tokens found in cache; lines: caches that never forget")?;
    let best = report.policies.iter().map(|policy| policy.hit_rate.max(policy.best.fleet));
    let top = (best.fold(report.one_cache_hit_rate, f64::max) * 1.15).clamp(0.01, 1.0);
    let y = |share: f64| panel.top + panel.height * (1.0 - (share / top).clamp(0.0, 1.0));
    scale(out, panel, top, |share| format!("{:.0} %", share * 100.0))?;
    bars(out, report, panel, |policy| (y(policy.hit_rate), format!("{:.1} %", policy.hit_rate * 100.0)))?;
    for (index, policy) in report.policies.iter().enumerate() {
        let (x, width) = bar(report, panel, index);
        line(out, x - 3.0, y(policy.best.fleet), x + width + 3.0, "stroke=\"#222\" stroke-width=\"2\"")?;
    }
    let style = "stroke=\"#222\" stroke-dasharray=\"6 4\"";
    line(out, panel.left, y(report.one_cache_hit_rate), panel.left + panel.width, style)
}

/// One bar per policy: the busiest worker against the mean.
fn balance(out: &mut String, report: &Report, panel: &Panel) -> fmt::Result {
    frame(out, panel, "Prefill of the busiest worker, mean = 1")?;
    let most = report.policies.iter().map(|policy| policy.balance.prefill).fold(1.0, f64::max);
    let top = most * 1.15;
    let y = |ratio: f64| panel.top + panel.height * (1.0 - ratio / top);
    scale(out, panel, top, |ratio| format!("{ratio:.1}"))?;
    bars(out, report, panel, |policy| (y(policy.balance.prefill), format!("{:.2}", policy.balance.prefill)))?;
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
        write!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\" \
             fill-opacity=\"0.8\"/>"
        )?;
        text(out, x + width / 2.0, panel.top + panel.height + 16.0, "middle", &label)?;
    }
    Ok(())
}

/// Left edge and width of a bar.
fn bar(report: &Report, panel: &Panel, index: usize) -> (f64, f64) {
    let step = panel.width / report.policies.len().max(1) as f64;
    (panel.left + step * (index as f64 + 0.2), step * 0.6)
}

/// Lines at round numbers from zero to the top of a panel, five or so.
fn scale(out: &mut String, panel: &Panel, top: f64, label: impl Fn(f64) -> String) -> fmt::Result {
    let rough = top / 5.0;
    let decade = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|part| part * decade).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(rough);
    for line in 0..=(top / step) as u32 {
        let value = f64::from(line) * step;
        grid_y(out, panel, panel.top + panel.height * (1.0 - value / top), &label(value))?;
    }
    Ok(())
}

fn frame(out: &mut String, panel: &Panel, title: &str) -> fmt::Result {
    text(out, panel.left, panel.top - 10.0, "start", &format!("<tspan font-weight=\"bold\">{title}</tspan>"))
}

fn grid_x(out: &mut String, panel: &Panel, x: f64, label: &str) -> fmt::Result {
    let (top, bottom) = (panel.top, panel.top + panel.height);
    write!(out, "<line x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#ddd\"/>")?;
    text(out, x, bottom + 16.0, "middle", label)
}

fn grid_y(out: &mut String, panel: &Panel, y: f64, label: &str) -> fmt::Result {
    line(out, panel.left, y, panel.left + panel.width, "stroke=\"#ddd\"")?;
    text(out, panel.left - 8.0, y + 4.0, "end", label)
}

/// A level line.
fn line(out: &mut String, from: f64, y: f64, to: f64, style: &str) -> fmt::Result {
    write!(out, "<line x1=\"{from:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\" {style}/>")
}

/// The content is ours: numbers, names of policies and markup.
fn text(out: &mut String, x: f64, y: f64, anchor: &str, content: &str) -> fmt::Result {
    write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{content}</text>")
}

fn coloured(report: &Report) -> impl Iterator<Item = (&PolicyReport, &'static str)> {
    report.policies.iter().zip(COLOURS.into_iter().cycle())
}

fn page(out: &mut String, reports: &[Report]) -> fmt::Result {
    out.write_str(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>tito replay</title>\
         <style>body{font-family:sans-serif;margin:2rem;max-width:60rem}table{border-collapse:collapse}\
         td,th{padding:.2rem .8rem;text-align:right}th:first-child,td:first-child{text-align:left}\
         tr:nth-child(even){background:#f4f4f4}</style>",
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
            "<tr><td>{}<td>{:.1} %<td>{:.1} %<td>{:.1} %<td>{:.2} s<td>{:.2} s<td>{:.2} s<td>{:.2} s<td>{:.2} s\
             <td>{:.2}",
            policy.policy,
            hit_rate * 100.0,
            best.fleet * 100.0,
            best.one_cache * 100.0,
            wait.p50,
            wait.p99,
            ttft.p50,
            ttft.p90,
            ttft.p99,
            balance.prefill
        )?;
    }
    out.write_str("</table>")
}

#[cfg(test)]
mod tests;
