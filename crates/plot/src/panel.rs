//! A panel: where it draws, its axes and its lines.

use std::fmt::{Result, Write};

use crate::text::{line, text};

/// Grid lines of a linear axis, about.
const GRID_LINES: f64 = 5.0;

/// Where a panel draws, in the picture's units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Panel {
    /// Left edge.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

/// How values lie on an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Axis {
    /// From zero to a largest value.
    Linear {
        /// Largest value, more than zero.
        max: f64,
    },
    /// From one power of ten to another.
    Log {
        /// Exponent at the beginning.
        first: i32,
        /// Exponent at the end, more than `first`.
        last: i32,
    },
}

impl Axis {
    /// From zero to a little above the largest value; to one when there is none.
    pub fn linear(values: impl Iterator<Item = f64>) -> Self {
        let max = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        Self::Linear { max: if max > 0.0 { max * 1.05 } else { 1.0 } }
    }

    /// The powers of ten around positive values, within six of one.
    pub fn log(values: impl Iterator<Item = f64>) -> Self {
        let (least, most) = values
            .filter(|value| *value > 0.0)
            .fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        let first = least.clamp(1e-6, 1e6).log10().floor() as i32;
        let last = most.clamp(1e-6, 1e6).log10().ceil() as i32;
        Self::Log { first, last: last.max(first + 1) }
    }

    /// Where a value lies, from 0 at the beginning to 1 at the end.
    pub fn place(self, value: f64) -> f64 {
        let place = match self {
            Self::Linear { max } => value / max,
            Self::Log { first, last } => {
                (value.max(f64::MIN_POSITIVE).log10() - f64::from(first)) / f64::from(last - first)
            }
        };
        place.clamp(0.0, 1.0)
    }

    /// The values that grid lines mark: round numbers, or each power of ten.
    pub fn marks(self) -> Vec<f64> {
        match self {
            Self::Linear { max } => {
                let rough = max / GRID_LINES;
                let decade = 10_f64.powf(rough.log10().floor());
                let steps = [1.0, 2.0, 5.0, 10.0].map(|part| part * decade);
                let step = steps.into_iter().find(|step| *step >= rough).unwrap_or(rough);
                (0..=(max / step) as u32).map(|line| f64::from(line) * step).collect()
            }
            Self::Log { first, last } => (first..=last).map(|exponent| 10_f64.powi(exponent)).collect(),
        }
    }
}

impl Panel {
    /// The x of a value.
    pub fn x(&self, axis: Axis, value: f64) -> f64 {
        self.left + self.width * axis.place(value)
    }

    /// The y of a value; the axis begins below.
    pub fn y(&self, axis: Axis, value: f64) -> f64 {
        self.top + self.height * (1.0 - axis.place(value))
    }

    /// The title above the panel.
    pub fn title(&self, out: &mut String, title: &str) -> Result {
        let title = format!("<tspan font-weight=\"bold\">{title}</tspan>");
        text(out, self.left, self.top - 10.0, "start", &title)
    }

    /// Upright grid lines with labels below.
    pub fn grid_x(&self, out: &mut String, axis: Axis, label: impl Fn(f64) -> String) -> Result {
        let (top, bottom) = (self.top, self.top + self.height);
        for mark in axis.marks() {
            let x = self.x(axis, mark);
            write!(
                out,
                "<line x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#ddd\"/>"
            )?;
            text(out, x, bottom + 16.0, "middle", &label(mark))?;
        }
        Ok(())
    }

    /// Level grid lines with labels to the left.
    pub fn grid_y(&self, out: &mut String, axis: Axis, label: impl Fn(f64) -> String) -> Result {
        axis.marks().into_iter().try_for_each(|mark| self.level(out, self.y(axis, mark), &label(mark)))
    }

    /// One level grid line with its label.
    pub fn level(&self, out: &mut String, y: f64, label: &str) -> Result {
        line(out, self.left, y, self.left + self.width, "stroke=\"#ddd\"")?;
        text(out, self.left - 8.0, y + 4.0, "end", label)
    }

    /// A line through points.
    pub fn curve(
        &self,
        out: &mut String,
        axes: (Axis, Axis),
        points: impl Iterator<Item = (f64, f64)>,
        style: &str,
    ) -> Result {
        write!(out, "<polyline fill=\"none\" stroke-width=\"2\" {style} points=\"")?;
        for (x, y) in points {
            write!(out, "{:.1},{:.1} ", self.x(axes.0, x), self.y(axes.1, y))?;
        }
        out.write_str("\"/>")
    }
}

#[cfg(test)]
mod tests;
