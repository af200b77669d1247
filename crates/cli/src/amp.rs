//! `adamant amp`: what mixed precision does with each function.
use crate::out;
use adamant::amp::PrecisionTable;
use adamant_train::Failure;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

/// What mixed precision does.
#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    verb: AmpVerb,
}
#[derive(Subcommand)]
enum AmpVerb {
    /// Lists every function with its class: low, wide, f32, widest, parts, refused.
    #[command(after_help = "Examples:\n  adamant amp table\n  adamant amp table --table torch --json")]
    Table(TableOptions),
}
#[derive(Args)]
struct TableOptions {
    /// whose table
    #[arg(long, value_enum, default_value = "adamant")]
    table: TableName,
    /// prints one JSON document
    #[arg(long)]
    json: bool,
}
#[derive(Clone, Copy, ValueEnum)]
enum TableName {
    Adamant,
    Torch,
}

pub fn run(o: &Options) -> (bool, Result<(), Failure>) {
    let AmpVerb::Table(o) = &o.verb;
    let table = match o.table {
        TableName::Adamant => PrecisionTable::Adamant,
        TableName::Torch => PrecisionTable::Torch,
    };
    let mut rows: Vec<(&str, String)> = table.rows().map(|(name, class)| (name, class.to_string())).collect();
    rows.sort();
    let said = if o.json {
        let functions: serde_json::Map<String, serde_json::Value> = rows.into_iter().map(|(name, class)| (name.into(), class.into())).collect();
        out::line(json!({ "functions": functions }))
    } else {
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        out::write(&rows.iter().map(|(name, class)| format!("{name:width$}  {class}\n")).collect::<String>())
    };
    (o.json, said)
}
