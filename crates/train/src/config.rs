//! Reading a description: values know the line they stand on, sections ([`Section`]) know which keys were asked for, and a
//! [`check`] of all sections finds out what is wrong with each key.
pub(crate) mod check;
mod section;

pub use section::Section;

use crate::{Failure, failure::shown};
use adamant_core::profile::record_function;
use std::{collections::BTreeMap, fs::File, io::Read, path::Path};
use toml::de::{DeTable, DeValue};

/// The longest description, in bytes. The longest that people write is a thousandth of it.
const LONGEST: u64 = 1 << 20;
/// How deep tables and lists may lie inside each other.
const DEEPEST: usize = 16;

/// A value and where it came from.
#[derive(Clone, Debug)]
struct ConfigNode {
    value: Value,
    from: KeyOrigin,
}
#[derive(Clone, Debug)]
enum Value {
    Flag(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<ConfigNode>),
    Table(BTreeMap<String, ConfigNode>),
}
impl Value {
    fn kind(&self) -> &'static str {
        match self {
            Value::Flag(_) => "true or false",
            Value::Int(v) if *v < 0 => "a negative integer",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}
#[derive(Clone, Copy, Debug)]
enum KeyOrigin {
    Line(usize),
    CommandLine,
}

/// A whole description.
#[derive(Clone, Debug)]
pub struct Document {
    name: String,
    root: ConfigNode,
}
impl Document {
    /// Reads a file.
    ///
    /// # Errors
    /// `Input`: it cannot be read or is no TOML.
    pub fn read(path: &Path) -> Result<Document, Failure> {
        let name = path.display().to_string();
        let refuse = |what: String| Failure::Input(format!("{name}: {what}"));
        if path.is_dir() {
            return Err(refuse("a folder; the description is a file in it".into()));
        }
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|e| refuse(e.to_string()))?;
        file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|e| refuse(e.to_string()))?;
        if bytes.len() as u64 > LONGEST {
            return Err(refuse(format!("more than {LONGEST} bytes; no description is as long as that")));
        }
        let text = String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            let line = 1 + e.as_bytes()[..at].iter().filter(|b| **b == b'\n').count();
            Failure::Input(format!("{name}:{line}: byte {at} is no UTF-8; a description is a text in UTF-8"))
        })?;
        Document::parse(&name, &text)
    }
    /// Parses a text; `name` stands in messages.
    ///
    /// # Errors
    /// `Input`: it is no TOML.
    pub fn parse(name: &str, text: &str) -> Result<Document, Failure> {
        let _range = record_function("parse");
        // A mark at the beginning says only that the text is UTF-8.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let starts: Vec<usize> = std::iter::once(0).chain(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(k, _)| k + 1)).collect();
        let line_of = |at: usize| starts.partition_point(|start| *start <= at).max(1);
        let refuse = |line: usize, what: &str| Failure::Input(format!("{name}:{line}: {what}"));
        let table = DeTable::parse(text).map_err(|e| {
            let line = line_of(e.span().map_or(0, |s| s.start));
            let there = text.lines().nth(line - 1).unwrap_or_default().trim();
            refuse(line, &format!("{} in `{}`", e.message().trim_end(), shown(there)))
        })?;
        let at = |k: usize| KeyOrigin::Line(line_of(k));
        let value = tree(&DeValue::Table(table.into_inner()), KeyOrigin::Line(1), "", 0, &at).map_err(|(at, what)| match at {
            KeyOrigin::Line(line) => refuse(line, &what),
            KeyOrigin::CommandLine => Failure::Input(format!("{name}: {what}")),
        })?;
        Ok(Document { name: name.into(), root: ConfigNode { value, from: KeyOrigin::Line(1) } })
    }
    /// Replaces or adds a value by `key=value`, where the key may be dotted (`optimizer.lr`) and the value is TOML
    /// (or a text, if it is no TOML). List elements are numbered (`model.layers.7.p`).
    ///
    /// # Errors
    /// `Usage`: no `=`, or a path through something that is no table.
    pub fn set(&mut self, assignment: &str) -> Result<(), Failure> {
        let refuse = |what: String| Failure::Usage(format!("--set {}: {what}", shown(assignment)));
        let Some((key, text)) = assignment.split_once('=') else { return Err(refuse("write key=value".into())) };
        let text = text.trim();
        if key.trim().split('.').any(|part| part.trim().is_empty()) {
            return Err(refuse("write key=value, the key's parts with a dot between them".into()));
        }
        if key.split('.').count() > DEEPEST {
            return Err(refuse(format!("a key has at most {DEEPEST} parts")));
        }
        let value = match DeValue::parse(text) {
            Ok(v) => tree(v.get_ref(), KeyOrigin::CommandLine, key.trim(), 0, &|_| KeyOrigin::CommandLine).map_err(|(_, what)| refuse(what))?,
            Err(_) => Value::Text(text.into()),
        };
        let mut place = &mut self.root;
        for part in key.trim().split('.') {
            place = match &mut place.value {
                Value::Table(t) => t.entry(part.into()).or_insert_with(|| ConfigNode { value: Value::Table(BTreeMap::new()), from: KeyOrigin::CommandLine }),
                Value::List(l) => {
                    let len = l.len();
                    part.parse().ok().and_then(|k: usize| l.get_mut(k)).ok_or_else(|| refuse(format!("`{part}` is no element of a list of {len}")))?
                }
                other => return Err(refuse(format!("`{part}` lies inside {}, not a table", other.kind()))),
            };
        }
        *place = ConfigNode { value, from: KeyOrigin::CommandLine };
        Ok(())
    }
    /// The description with numbers in place of words: where a value is the text `$name`, the number of that name.
    pub fn resolve(&self, words: &[(&str, usize)]) -> Document {
        fn fill(value: &mut Value, words: &[(&str, usize)]) {
            match value {
                Value::Table(t) => t.values_mut().for_each(|n| fill(&mut n.value, words)),
                Value::List(l) => l.iter_mut().for_each(|n| fill(&mut n.value, words)),
                Value::Text(text) => {
                    let named = text.strip_prefix('$').and_then(|name| words.iter().find(|(word, _)| *word == name));
                    if let Some((_, number)) = named {
                        *value = Value::Int(*number as i64);
                    }
                }
                _ => {}
            }
        }
        let mut resolved = self.clone();
        fill(&mut resolved.root.value, words);
        resolved
    }
    /// Does a value say `$word`?
    pub(crate) fn names(&self, word: &str) -> bool {
        fn says(value: &Value, word: &str) -> bool {
            match value {
                Value::Table(t) => t.values().any(|n| says(&n.value, word)),
                Value::List(l) => l.iter().any(|n| says(&n.value, word)),
                Value::Text(text) => text.strip_prefix('$') == Some(word),
                _ => false,
            }
        }
        says(&self.root.value, word)
    }
    /// Is there a section of this name?
    pub(crate) fn names_section(&self, key: &str) -> bool {
        matches!(&self.root.value, Value::Table(root) if root.contains_key(key))
    }
    /// The description as TOML: comments are lost, nothing else.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        if let Value::Table(root) = &self.root.value {
            write_table(root, "", &mut text);
        }
        text
    }
    /// The keys (dotted) that have another value in `other`, or none there, or none here.
    pub fn difference(&self, other: &Document) -> Vec<String> {
        let (mut here, mut there) = (BTreeMap::new(), BTreeMap::new());
        leaves(&self.root.value, "", &mut here);
        leaves(&other.root.value, "", &mut there);
        let mut keys: Vec<String> = here.iter().filter(|(k, v)| there.get(*k) != Some(v)).map(|(k, _)| k.clone()).collect();
        keys.extend(there.keys().filter(|k| !here.contains_key(*k)).cloned());
        keys
    }
    /// The outermost section.
    ///
    /// # Errors
    /// Never: a document is a table.
    pub fn root(&self) -> Result<Section<'_>, Failure> {
        Section::root(self, false)
    }
}
/// Each value that is no table and no list, as text, by its dotted key.
fn leaves(value: &Value, path: &str, into: &mut BTreeMap<String, String>) {
    let under = |key: &str| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
    match value {
        Value::Table(t) => t.iter().for_each(|(k, n)| leaves(&n.value, &under(k), into)),
        Value::List(l) => l.iter().enumerate().for_each(|(k, n)| leaves(&n.value, &under(&k.to_string()), into)),
        other => {
            into.insert(path.to_string(), inline(other));
        }
    }
}
fn write_table(table: &BTreeMap<String, ConfigNode>, path: &str, text: &mut String) {
    let is_table = |n: &&ConfigNode| matches!(n.value, Value::Table(_));
    for (key, node) in table.iter().filter(|(_, n)| !is_table(n)) {
        *text += &match &node.value {
            // A list of tables is easier to read line by line.
            Value::List(l) if l.iter().any(|n| is_table(&n)) => {
                let lines: String = l.iter().map(|n| format!("    {},\n", inline(&n.value))).collect();
                format!("{} = [\n{lines}]\n", bare(key))
            }
            other => format!("{} = {}\n", bare(key), inline(other)),
        };
    }
    for (key, node) in table {
        let Value::Table(inner) = &node.value else { continue };
        let path = if path.is_empty() { bare(key) } else { format!("{path}.{}", bare(key)) };
        *text += &format!("\n[{path}]\n");
        write_table(inner, &path, text);
    }
}
fn inline(value: &Value) -> String {
    match value {
        Value::Flag(v) => v.to_string(),
        Value::Int(v) => v.to_string(),
        Value::Float(v) => format!("{v:?}"),
        Value::Text(v) => quoted(v),
        Value::List(l) => format!("[{}]", l.iter().map(|n| inline(&n.value)).collect::<Vec<_>>().join(", ")),
        Value::Table(t) => format!("{{ {} }}", t.iter().map(|(k, n)| format!("{} = {}", bare(k), inline(&n.value))).collect::<Vec<_>>().join(", ")),
    }
}
fn bare(key: &str) -> String {
    let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if plain { key.into() } else { quoted(key) }
}
/// A text as TOML has it.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted += &format!("\\u{:04X}", c as u32),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
type Bad = (KeyOrigin, String);
/// The value at `path`, of which the parts know where they stand.
fn tree(value: &DeValue<'_>, from: KeyOrigin, path: &str, depth: usize, at: &dyn Fn(usize) -> KeyOrigin) -> Result<Value, Bad> {
    let refuse = |what: String| Err((from, if path.is_empty() { what } else { format!("`{}`: {what}", shown(path)) }));
    let under = |key: &str| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
    if depth > DEEPEST {
        return refuse(format!("more than {DEEPEST} tables or lists inside each other"));
    }
    Ok(match value {
        DeValue::Boolean(v) => Value::Flag(*v),
        DeValue::String(v) => Value::Text(v.to_string()),
        DeValue::Integer(v) => match i64::from_str_radix(v.as_str(), v.radix()) {
            Ok(v) => Value::Int(v),
            Err(_) => return refuse(format!("{} is no integer of 64 bits", shown(v.as_str()))),
        },
        DeValue::Float(v) => match v.as_str().parse() {
            Ok(v) => Value::Float(v),
            Err(e) => return refuse(format!("{}: {e}", shown(v.as_str()))),
        },
        DeValue::Datetime(v) => return refuse(format!("{v} is a date; no key takes one")),
        DeValue::Array(list) => {
            let mut nodes = Vec::new();
            for (k, v) in list.iter().enumerate() {
                let from = at(v.span().start);
                nodes.push(ConfigNode { value: tree(v.get_ref(), from, &under(&k.to_string()), depth + 1, at)?, from });
            }
            Value::List(nodes)
        }
        DeValue::Table(table) => {
            let mut nodes = BTreeMap::new();
            for (key, v) in table.iter() {
                let from = at(key.span().start);
                nodes.insert(key.get_ref().to_string(), ConfigNode { value: tree(v.get_ref(), from, &under(key.get_ref()), depth + 1, at)?, from });
            }
            Value::Table(nodes)
        }
    })
}
