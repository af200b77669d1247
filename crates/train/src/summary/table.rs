//! A summary as a person reads it: a table that fits its terminal. What does not fit is left out by column, least needed
//! first, and long names lose their middle; the figures of all columns are in the JSON.
use super::{Row, Summary, size};
use crate::plot::scale::number;
use adamant_core::DType;
use comfy_table::{
    Cell, CellAlignment, Table,
    presets::{ASCII_FULL_CONDENSED, UTF8_FULL_CONDENSED},
};
use std::fmt;

/// How wide a terminal is, and what it can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Style {
    /// columns; none: as many as it takes
    pub width: Option<usize>,
    /// no box characters, nothing beyond ASCII
    pub ascii: bool,
}
/// The columns, and when each is left out: those with the highest number first.
const COLUMNS: [(&str, usize); 8] =
    [("Layer", 0), ("Input", 4), ("Output", 2), ("Parameters", 1), ("FLOPs", 3), ("Moved", 6), ("FLOP/B", 7), ("Kept for backward", 5)];
/// A layer's name is cut to this before a column is left out, and to less only where no column is left.
const NAME: usize = 22;
const SHORTEST: usize = 4;

impl Summary {
    /// A table of the layers and the totals below it, no line of which is wider than the style says.
    pub fn table(&self, style: Style) -> String {
        let none = if style.ascii { "-" } else { "–" };
        let cells: Vec<Vec<String>> = self.rows.iter().map(|row| cells(row, none).into()).collect();
        let mut text = fitted(&COLUMNS, &cells, style);
        for line in self.totals() {
            text.push('\n');
            text += &folded(&line, style.width.unwrap_or(usize::MAX));
        }
        text
    }
    fn totals(&self) -> Vec<String> {
        let t = &self.totals;
        let mut lines = vec![
            format!("input {:?}, output {:?}", self.input, self.output),
            format!("{} parameters, {} trainable, {} with buffers", self.parameters, self.trainable, size(self.parameter_bytes as u64)),
            format!("{} FLOPs forward, {} multiply-adds", number(t.flops as f64), number(t.multiply_adds as f64)),
            format!("{} moved without fusion, {:.1} FLOP/B; {} kept for backward", size(t.bytes_moved), t.intensity(), size(t.activation_bytes)),
        ];
        if t.flops_16bit > 0 {
            lines.push(format!("{:.1} % of the FLOPs in 16 bits", 100.0 * t.flops_16bit as f64 / t.flops.max(1) as f64));
        }
        if !self.uncounted.is_empty() {
            lines.push(format!("FLOPs not counted: {}", self.uncounted.join(", ")));
        }
        lines
    }
}
/// A table of columns, each with the order in which it is left out; the first is the layer's name and stays. Shapes and names are on
/// the left, figures on the right.
pub(crate) fn fitted(named: &[(&str, usize)], cells: &[Vec<String>], style: Style) -> String {
    let wide = |text: &str| text.chars().count();
    let width = |column: usize| cells.iter().map(|row| wide(&row[column])).chain([wide(named[column].0)]).max().unwrap_or(0);
    let widths: Vec<usize> = (0..named.len()).map(width).collect();
    let mut columns: Vec<usize> = (0..named.len()).collect();
    let mut name = widths[0];
    if let Some(most) = style.width {
        // A line between any two columns and at both ends, and a space on each of its sides.
        let others = |columns: &[usize]| columns.iter().filter(|c| **c != 0).map(|c| widths[*c] + 3).sum::<usize>() + 4;
        while columns.len() > 1 && others(&columns) + widths[0].min(NAME) > most {
            let least = (0..columns.len()).max_by_key(|k| named[columns[*k]].1).unwrap_or(0);
            columns.remove(least);
        }
        name = name.min(most.saturating_sub(others(&columns)).max(SHORTEST));
    }
    let mut table = Table::new();
    table.load_style(if style.ascii { ASCII_FULL_CONDENSED } else { UTF8_FULL_CONDENSED });
    table.set_header(columns.iter().map(|c| named[*c].0));
    let is_text = |column: usize| matches!(named[column].0, "Input" | "Output" | "Bound");
    for row in cells {
        table.add_row(columns.iter().map(|&c| match c {
            0 => Cell::new(cut(&row[0], name, style.ascii)),
            c if is_text(c) => Cell::new(&row[c]),
            _ => Cell::new(&row[c]).set_alignment(CellAlignment::Right),
        }));
    }
    table.to_string()
}
impl fmt::Display for Summary {
    /// The table of the layers in its full width, and the totals below it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table(Style::default()))
    }
}
/// A layer's name, indented by its depth, with its kind.
pub(crate) fn name_of(row: &Row) -> String {
    let depth = if row.path.is_empty() { 0 } else { row.path.matches('.').count() };
    let also = if row.also.is_empty() {
        String::new()
    } else {
        format!(" (and {})", row.also.iter().map(|p| crate::failure::shown(p)).collect::<Vec<_>>().join(", "))
    };
    if row.path.is_empty() { row.kind.clone() } else { format!("{}{}{also}: {}", "  ".repeat(depth), crate::failure::shown(&row.path), row.kind) }
}
pub(crate) fn shape_of(dims: &Option<Vec<usize>>, none: &str) -> String {
    dims.as_ref().map_or_else(|| none.into(), |d| format!("{d:?}"))
}
fn cells(row: &Row, none: &str) -> [String; 8] {
    let or_none = |n: u64, text: String| if n == 0 { none.into() } else { text };
    let figures = &row.figures;
    [
        name_of(row),
        shape_of(&row.input, none),
        match row.dtype.filter(|d| matches!(d, DType::F16 | DType::BF16)) {
            Some(dtype) => format!("{} {dtype}", shape_of(&row.output, none)),
            None => shape_of(&row.output, none),
        },
        or_none(row.parameters as u64, row.parameters.to_string()),
        or_none(figures.flops, number(figures.flops as f64)),
        or_none(figures.bytes_moved, size(figures.bytes_moved)),
        or_none(figures.flops, format!("{:.1}", figures.intensity())),
        or_none(figures.activation_bytes, size(figures.activation_bytes)),
    ]
}
/// A name without its middle.
fn cut(name: &str, most: usize, ascii: bool) -> String {
    let length = name.chars().count();
    let name: String = if ascii { name.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect() } else { name.into() };
    if length <= most {
        return name;
    }
    // What is indented gives that up first.
    let name = name.trim_start();
    let length = name.chars().count();
    if length <= most {
        return name.into();
    }
    let between = if ascii { ".." } else { "…" };
    let left = most.saturating_sub(between.chars().count());
    let (head, tail) = (left.div_ceil(2), left / 2);
    name.chars().take(head).chain(between.chars()).chain(name.chars().skip(length - tail)).collect()
}
/// A line broken between words.
pub(crate) fn folded(line: &str, most: usize) -> String {
    let mut text = String::new();
    let mut used = 0;
    for word in line.split(' ') {
        let long = word.chars().count();
        if used > 0 && used + 1 + long > most {
            text += "\n  ";
            used = 2;
        } else if used > 0 {
            text.push(' ');
            used += 1;
        }
        text += word;
        used += long;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Figures;

    fn summary() -> Summary {
        let row = |path: &str, n: usize| Row {
            path: path.into(),
            kind: "TransformerEncoderLayer".into(),
            also: Vec::new(),
            input: Some(vec![64, 128, 32, 32]),
            output: Some(vec![64, 128, 32, 32]),
            dtype: Some(DType::F32),
            parameters: n,
            figures: Figures { flops: 1_234_567_890, multiply_adds: 5, flops_16bit: 0, bytes_moved: 1 << 33, activation_bytes: 0 },
        };
        Summary {
            rows: vec![
                row("blocks.0.self_attn", 123_456_789),
                row("a_name_that_is_longer_than_any_terminal_is_wide_and_then_some.12.norm", 0),
                row("größe", 7),
            ],
            input: vec![64, 128, 32, 32],
            output: vec![64, 10],
            parameters: 123_456_789,
            trainable: 123_456_789,
            parameter_bytes: 1 << 30,
            totals: Figures::default(),
            uncounted: vec!["one".into()],
        }
    }
    #[test]
    fn a_line_that_is_wider_than_the_terminal_or_a_table_without_its_figures() {
        for width in [40, 60, 80, 100, 120, 200] {
            for ascii in [false, true] {
                let text = summary().table(Style { width: Some(width), ascii });
                let widest = text.lines().map(|l| l.chars().count()).max();
                assert!(widest <= Some(width), "{width}: {widest:?}\n{text}");
                assert!(!ascii || text.is_ascii(), "{text}");
                assert!(text.contains("Parameters") && text.contains("123456789"), "{width}\n{text}");
                assert!(text.contains(".norm") || text.contains("Layer"), "{text}");
            }
        }
        let whole = summary().to_string();
        assert!(COLUMNS.iter().all(|(name, _)| whole.contains(name)), "{whole}");
        assert!(whole.contains("a_name_that_is_longer_than_any_terminal_is_wide_and_then_some.12.norm: TransformerEncoderLayer"), "{whole}");
    }
    #[test]
    fn a_name_that_loses_its_ends() {
        for (name, most, ascii, want) in
            [("features.0.conv", 9, false, "feat…conv"), ("features.0.conv", 9, true, "feat..onv"), ("short", 9, true, "short"), ("größe", 9, true, "gr??e")]
        {
            assert_eq!(cut(name, most, ascii), want);
        }
    }
}
