//! Results as pages for a browser: pictures above the text of the terminal. Complete in themselves: no script, no font
//! and no image comes from elsewhere.

mod comparison;
mod run;
mod sweep;

use std::fmt::{self, Write as _};

use tito_plot::{Axis, COLOURS, PAGE_STYLE, Panel, close_svg, escape, open_svg, rectangle, text};

use crate::compare::Comparison;
use crate::report::Report;
use crate::sweep::Sweep;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 72.0;
/// Between two panels, with room for the labels of an axis.
const GAP: f64 = 88.0;
const PANEL_HEIGHT: f64 = 220.0;
/// From the top of one row of panels to that of the next.
const ROW: f64 = 300.0;
/// Room above the first row: title and legend.
const HEAD: f64 = 92.0;

/// The page of one run.
pub fn run_html(report: &Report) -> String {
    page(report, |out| run::draw(out, report))
}

/// The page of a comparison.
pub fn comparison_html(comparison: &Comparison) -> String {
    page(comparison, |out| comparison::draw(out, comparison))
}

/// The page of a rate sweep.
pub fn sweep_html(sweep: &Sweep) -> String {
    page(sweep, |out| sweep::draw(out, sweep))
}

fn page(result: &impl fmt::Display, draw: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>tito bench</title>\
         <style>{PAGE_STYLE}pre{{font-size:.8rem}}</style>\n"
    );
    draw(&mut out).expect("a string takes any text");
    out += "\n<pre>";
    out += &escape(&result.to_string());
    out += "</pre></html>\n";
    out
}

/// A picture with so many rows of panels under a title and a legend of names.
fn picture(
    out: &mut String,
    rows: u32,
    title: &str,
    legend: &[String],
    draw: impl FnOnce(&mut String) -> fmt::Result,
) -> fmt::Result {
    open_svg(out, WIDTH, HEAD + ROW * f64::from(rows) - 20.0)?;
    text(out, LEFT, 26.0, "start", &format!("<tspan font-size=\"16\">{}</tspan>", escape(title)))?;
    for (place, (name, colour)) in legend.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let x = LEFT + place as f64 * 150.0;
        rectangle(out, x, 42.0, 12.0, 12.0, &format!("fill=\"{colour}\""))?;
        text(out, x + 18.0, 52.0, "start", &escape(name))?;
    }
    draw(out)?;
    close_svg(out)
}

/// The panel at the left or right of a row, or all of it.
fn panel(row: u32, side: Side) -> Panel {
    let whole = WIDTH - LEFT - 32.0;
    let half = (whole - GAP) / 2.0;
    let (left, width) = match side {
        Side::Whole => (LEFT, whole),
        Side::Left => (LEFT, half),
        Side::Right => (LEFT + half + GAP, half),
    };
    Panel { left, top: HEAD + ROW * f64::from(row), width, height: PANEL_HEIGHT }
}

#[derive(Debug, Clone, Copy)]
enum Side {
    Whole,
    Left,
    Right,
}

fn stroke(place: usize) -> String {
    format!("stroke=\"{}\"", COLOURS[place % COLOURS.len()])
}

/// A line of values over something, in a colour by its place in the legend; it is interrupted where there is no value.
struct Curve<'a> {
    colour: usize,
    dashed: bool,
    points: &'a [(f64, Option<f64>)],
}

fn curve(colour: usize, dashed: bool, points: &[(f64, Option<f64>)]) -> Curve<'_> {
    Curve { colour, dashed, points }
}

/// Lines over time or rate, both axes linear.
fn lines(out: &mut String, panel: &Panel, title: &str, of: &[Curve<'_>], x_unit: &str) -> fmt::Result {
    let points = || of.iter().flat_map(|line| line.points);
    let x = Axis::linear(points().map(|(x, _)| *x));
    let y = Axis::linear(points().filter_map(|(_, y)| *y));
    panel.title(out, title)?;
    panel.grid_x(out, x, |mark| format!("{} {x_unit}", number(mark)))?;
    panel.grid_y(out, y, number)?;
    for line in of {
        let dash = if line.dashed { " stroke-dasharray=\"4 3\"" } else { "" };
        let style = format!("{}{dash}", stroke(line.colour));
        for part in line.points.split(|(_, y)| y.is_none()).filter(|part| !part.is_empty()) {
            let points = part.iter().filter_map(|(x, y)| Some((*x, (*y)?)));
            panel.curve(out, (x, y), points, &style)?;
        }
    }
    Ok(())
}

/// Share of requests (upwards) whose time was within so many milliseconds (rightwards, logarithmic). Each curve is a value
/// per percent and ends where failed requests hide the rest.
fn distribution(out: &mut String, panel: &Panel, title: &str, curves: &[(usize, &[f64])]) -> fmt::Result {
    let x = Axis::log(curves.iter().flat_map(|(_, curve)| curve.iter().copied()));
    let y = Axis::Linear { max: 100.0 };
    panel.title(out, title)?;
    panel.grid_x(out, x, |mark| format!("{} ms", number(mark)))?;
    for percent in [0.0, 25.0, 50.0, 75.0, 90.0, 99.0] {
        panel.level(out, panel.y(y, percent), &format!("{percent} %"))?;
    }
    for (colour, curve) in curves {
        let points = curve.iter().zip(0_u32..).map(|(ms, percent)| (*ms, f64::from(percent)));
        panel.curve(out, (x, y), points, &stroke(*colour))?;
    }
    Ok(())
}

/// A number of an axis: short, and without what a float adds to it.
fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let mut short = String::new();
    let _ = match text.parse::<f64>() {
        Ok(value) if value >= 10_000.0 => write!(short, "{}k", value / 1000.0),
        Ok(_) | Err(_) => write!(short, "{text}"),
    };
    short
}

#[cfg(test)]
mod tests;
