//! Lines of cells as text for people.

/// Lines of cells as columns: the first to the left, numbers to the right.
pub fn columns(lines: &[Vec<String>]) -> String {
    let cells = lines.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..cells).map(|c| lines.iter().filter_map(|l| l.get(c)).map(|t| t.chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for line in lines {
        for (c, cell) in line.iter().enumerate() {
            text += &if c == 0 { format!("{cell:<w$}", w = widths[c]) } else { format!("  {cell:>w$}", w = widths[c]) };
        }
        text += "\n";
    }
    text
}
