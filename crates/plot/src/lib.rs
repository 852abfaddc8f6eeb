//! Panels, axes and lines of the pictures that commands draw, as SVG text that is complete in itself.
//!
//! It knows geometry and nothing of what is drawn. Pure: text goes into a `fmt::Write`.

mod panel;
mod text;

pub use panel::{Axis, Panel};
pub use text::{close_svg, escape, line, open_svg, rectangle, text};

/// Colours told apart by most eyes, in the order in which they are used.
pub const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// The style sheet of a page around pictures and tables.
pub const PAGE_STYLE: &str = "body{font-family:sans-serif;margin:2rem;max-width:60rem}table{border-collapse:collapse}\
     td,th{padding:.2rem .8rem;text-align:right}th:first-child,td:first-child{text-align:left}\
     tr:nth-child(even){background:#f4f4f4}";
