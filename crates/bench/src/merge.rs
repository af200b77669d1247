//! Records of several machines as one table: a row for each workload, a column for each `implementation, backend @
//! machine`. What makes machines comparable is the share of each one's own roofline.
use crate::{
    ceilings::Ceilings,
    machine::{Facts, differences},
    record::{Case, Record},
    workload::{Group, Rate},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The table.
#[derive(Clone, Serialize, Debug)]
pub struct MergedTable {
    /// by implementation and machine
    pub columns: Vec<MergedColumn>,
    /// in the order of the first record that has them
    pub rows: Vec<Row>,
}
/// Who measured where.
#[derive(Clone, Serialize, Debug)]
pub struct MergedColumn {
    /// `adamant, cpu avx2 t2 @ machine`
    pub name: String,
    /// the environment
    pub facts: Facts,
    /// what the machine can do
    pub ceilings: Option<Ceilings>,
    /// the instruction set in use
    pub isa: Option<String>,
    /// the sources
    pub commit: Option<String>,
    /// when
    pub started: String,
}
/// One workload.
#[derive(Clone, Serialize, Debug)]
pub struct Row {
    /// its name
    pub workload: String,
    /// its group
    pub group: Group,
    /// its size, where it is one of many
    pub elements: Option<u64>,
    /// one for each column; nothing where it was not measured
    pub cells: Vec<Option<MergedCell>>,
}
/// One workload of one column.
#[derive(Clone, Serialize, Debug)]
pub struct MergedCell {
    /// the median
    pub median_ns: Option<f64>,
    /// its 95 % interval
    pub ci95_ns: Option<[f64; 2]>,
    /// 10⁹ operations, or bytes, in a second; or tokens
    pub throughput: Option<f64>,
    /// `GFLOP/s`, `GB/s` or `tokens/s`
    pub unit: Option<&'static str>,
    /// the share of this machine's own roofline
    pub of_roofline: Option<f64>,
    /// operations for each byte
    pub intensity: Option<f64>,
    /// from 1, the fastest
    pub rank: Option<usize>,
    /// growth of memory
    pub peak_growth_bytes: Option<u64>,
    /// plans found again from the third call on
    pub plan_hits: Option<f64>,
    /// why there is no time
    pub error: Option<String>,
    /// because a part is not there
    pub unsupported: bool,
}

/// Merges records; where two have the same column, a later one replaces the cells of an earlier one.
pub fn merge(records: &[Record]) -> MergedTable {
    let mut in_order: Vec<&Record> = records.iter().collect();
    in_order.sort_by(|a, b| a.started.cmp(&b.started));
    let mut table = MergedTable { columns: Vec::new(), rows: Vec::new() };
    let mut rows: BTreeMap<String, usize> = BTreeMap::new();
    for record in &in_order {
        for case in &record.cases {
            let column = column_of(&mut table, record, case);
            let row = *rows.entry(case.workload.clone()).or_insert_with(|| {
                table.rows.push(Row { workload: case.workload.clone(), group: case.group, elements: case.elements, cells: Vec::new() });
                table.rows.len() - 1
            });
            let cells = &mut table.rows[row].cells;
            cells.resize(cells.len().max(column + 1), None);
            cells[column] = Some(cell(case, record));
        }
    }
    let columns = table.columns.len();
    for row in &mut table.rows {
        row.cells.resize(columns, None);
        let mut timed: Vec<(f64, usize)> = row.cells.iter().enumerate().filter_map(|(k, c)| Some((c.as_ref()?.median_ns?, k))).collect();
        timed.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (rank, (_, k)) in timed.into_iter().enumerate() {
            if let Some(cell) = &mut row.cells[k] {
                cell.rank = Some(rank + 1);
            }
        }
    }
    table
}
/// The column of a case, new if there is none with its name in its environment.
fn column_of(table: &mut MergedTable, record: &Record, case: &Case) -> usize {
    let facts = record.environment();
    let name = format!("{}, {}", case.implementation, record.column());
    let same = |c: &MergedColumn| c.name.split(" #").next() == Some(&name) && differences(&c.facts, &facts).is_empty();
    let commit = record.git.as_ref().map(|g| format!("{:.12}{}", g.commit, if g.dirty { "+" } else { "" }));
    if let Some(k) = table.columns.iter().position(same) {
        let column = &mut table.columns[k];
        (column.commit, column.started) = (commit, record.started.clone());
        column.ceilings = record.ceilings.clone().or(column.ceilings.take());
        return k;
    }
    // Another machine under the same name gets a number.
    let namesakes = table.columns.iter().filter(|c| c.name.split(" #").next() == Some(&name)).count();
    let name = if namesakes == 0 { name } else { format!("{name} #{}", namesakes + 1) };
    let isa = record.settings.isa().map(str::to_string);
    table.columns.push(MergedColumn { name, facts, ceilings: record.ceilings.clone(), isa, commit, started: record.started.clone() });
    table.columns.len() - 1
}
fn cell(case: &Case, record: &Record) -> MergedCell {
    let median_ns = case.median_ns().filter(|_| !record.settings.small);
    let (throughput, unit) = median_ns
        .zip(case.rate())
        .map(|(ns, rate)| match rate {
            Rate::Flop(n) => (n / ns, "GFLOP/s"),
            Rate::Bytes(n) => (n / ns, "GB/s"),
            Rate::Tokens(n) => (n / ns * 1e9, "tokens/s"),
        })
        .unzip();
    let small = (record.settings.small && case.error.is_none()).then(|| "small shapes: right, but not timed".to_string());
    // Ceilings are the machine's own; another implementation chooses its instruction set itself.
    let isa = record.settings.isa().filter(|_| case.implementation == "adamant");
    MergedCell {
        median_ns,
        ci95_ns: case.summary.map(|s| s.ci95_ns).filter(|_| median_ns.is_some()),
        throughput,
        unit,
        of_roofline: record.ceilings.as_ref().filter(|_| median_ns.is_some()).and_then(|c| case.of_roofline(c, isa)),
        intensity: case.intensity,
        rank: None,
        peak_growth_bytes: case.peak_growth_bytes,
        plan_hits: case.plan_hits,
        error: case.error.clone().or(small),
        unsupported: case.unsupported,
    }
}
impl Row {
    /// The family of one size of many: `add` of `add/4096`.
    pub fn family(&self) -> &str {
        self.workload.rsplit_once('/').map_or(&self.workload, |(family, _)| family)
    }
}

#[cfg(test)]
#[path = "merge/tests.rs"]
mod tests;
