//! Tables that read well on a terminal and are Markdown when pasted.

/// Lays the rows out under the header; a missing cell is empty, a pipe in a cell is escaped.
pub(crate) fn markdown(header: &[&str], rows: &[Vec<String>]) -> String {
    let header: Vec<String> = header.iter().map(|cell| (*cell).to_owned()).collect();
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| cell.replace('|', "\\|")).collect()).collect();
    let widths: Vec<usize> = (0..header.len())
        .map(|column| {
            let cells = std::iter::once(&header).chain(&rows).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
        })
        .collect();
    let mut table = line(&header, &widths);
    table.push_str(&line(&widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>(), &widths));
    for row in &rows {
        table.push_str(&line(row, &widths));
    }
    table
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::from("|");
    for (column, width) in widths.iter().enumerate() {
        let cell = cells.get(column).map_or("", String::as_str);
        let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
        line.extend([" ", cell, &padding, " |"]);
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests;
