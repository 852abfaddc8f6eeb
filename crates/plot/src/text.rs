//! The few elements of SVG that the pictures need.

use std::fmt::{Result, Write};

/// Begins a picture of this size on a white ground.
pub fn open_svg(out: &mut String, width: f64, height: f64) -> Result {
    write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
    )
}

/// Ends a picture.
pub fn close_svg(out: &mut String) -> Result {
    out.write_str("</svg>")
}

/// A text at a point; `anchor` is `start`, `middle` or `end`. The content is markup: [`escape`] what is not ours.
pub fn text(out: &mut String, x: f64, y: f64, anchor: &str, content: &str) -> Result {
    write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{content}</text>")
}

/// A level line from one x to another.
pub fn line(out: &mut String, from: f64, y: f64, to: f64, style: &str) -> Result {
    write!(out, "<line x1=\"{from:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\" {style}/>")
}

/// A filled rectangle.
pub fn rectangle(out: &mut String, x: f64, y: f64, width: f64, height: f64, style: &str) -> Result {
    write!(out, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" {style}/>")
}

/// A text in which nothing is markup.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
