//! Reading a description: values know the line they stand on, sections know which keys were asked for.
mod lists;

use crate::Failure;
use adamant_core::profile::record_function;
use adamant_nn::nearest;
use std::{cell::RefCell, collections::BTreeMap, path::Path};
use toml::de::{DeTable, DeValue};

/// A value and where it came from.
#[derive(Clone, Debug)]
struct Node {
    value: Value,
    from: Origin,
}
#[derive(Clone, Debug)]
enum Value {
    Flag(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Table(BTreeMap<String, Node>),
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
enum Origin {
    Line(usize),
    CommandLine,
}

/// A whole description.
#[derive(Clone, Debug)]
pub struct Document {
    name: String,
    root: Node,
}
impl Document {
    /// Reads a file.
    ///
    /// # Errors
    /// `Input`: it cannot be read or is no TOML.
    pub fn read(path: &Path) -> Result<Document, Failure> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|e| Failure::Input(format!("{name}: {e}")))?;
        Document::parse(&name, &text)
    }
    /// Parses a text; `name` stands in messages.
    ///
    /// # Errors
    /// `Input`: it is no TOML.
    pub fn parse(name: &str, text: &str) -> Result<Document, Failure> {
        let _range = record_function("parse");
        let line_of = |at: usize| 1 + text.as_bytes().iter().take(at).filter(|b| **b == b'\n').count();
        let refuse = |at: usize, what: &str| Failure::Input(format!("{name}:{}: {}", line_of(at), what.trim_end()));
        let table = DeTable::parse(text).map_err(|e| refuse(e.span().map_or(0, |s| s.start), e.message()))?;
        let at = |k: usize| Origin::Line(line_of(k));
        let value = tree(&DeValue::Table(table.into_inner()), Origin::Line(1), &at).map_err(|(at, what)| match at {
            Origin::Line(line) => Failure::Input(format!("{name}:{line}: {what}")),
            Origin::CommandLine => Failure::Input(format!("{name}: {what}")),
        })?;
        Ok(Document { name: name.into(), root: Node { value, from: Origin::Line(1) } })
    }
    /// Replaces or adds a value by `key=value`, where the key may be dotted (`optimizer.lr`) and the value is TOML
    /// (or a text, if it is no TOML). List elements are numbered (`model.layers.7.p`).
    ///
    /// # Errors
    /// `Usage`: no `=`, or a path through something that is no table.
    pub fn set(&mut self, assignment: &str) -> Result<(), Failure> {
        let refuse = |what: String| Failure::Usage(format!("--set {assignment}: {what}"));
        let Some((key, text)) = assignment.split_once('=') else { return Err(refuse("write key=value".into())) };
        let text = text.trim();
        if key.trim().split('.').any(|part| part.trim().is_empty()) {
            return Err(refuse("write key=value, the key's parts with a dot between them".into()));
        }
        let value = match DeValue::parse(text) {
            Ok(v) => tree(v.get_ref(), Origin::CommandLine, &|_| Origin::CommandLine).map_err(|(_, what)| refuse(what))?,
            Err(_) => Value::Text(text.into()),
        };
        let mut place = &mut self.root;
        for part in key.trim().split('.') {
            place = match &mut place.value {
                Value::Table(t) => t.entry(part.into()).or_insert_with(|| Node { value: Value::Table(BTreeMap::new()), from: Origin::CommandLine }),
                Value::List(l) => {
                    let len = l.len();
                    part.parse().ok().and_then(|k: usize| l.get_mut(k)).ok_or_else(|| refuse(format!("`{part}` is no element of a list of {len}")))?
                }
                other => return Err(refuse(format!("`{part}` lies inside {}, not a table", other.kind()))),
            };
        }
        *place = Node { value, from: Origin::CommandLine };
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
        Section::of(&self.name, "", &self.root)
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
fn write_table(table: &BTreeMap<String, Node>, path: &str, text: &mut String) {
    let is_table = |n: &&Node| matches!(n.value, Value::Table(_));
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
fn quoted(text: &str) -> String {
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
type Bad = (Origin, String);
fn tree(value: &DeValue<'_>, from: Origin, at: &dyn Fn(usize) -> Origin) -> Result<Value, Bad> {
    Ok(match value {
        DeValue::Boolean(v) => Value::Flag(*v),
        DeValue::String(v) => Value::Text(v.to_string()),
        DeValue::Integer(v) => Value::Int(i64::from_str_radix(v.as_str(), v.radix()).map_err(|_| (from, format!("{} is no integer of 64 bits", v.as_str())))?),
        DeValue::Float(v) => Value::Float(v.as_str().parse().map_err(|e| (from, format!("{}: {e}", v.as_str())))?),
        DeValue::Datetime(v) => return Err((from, format!("{v}: no key takes a date"))),
        DeValue::Array(list) => {
            let mut nodes = Vec::new();
            for v in list.iter() {
                let from = at(v.span().start);
                nodes.push(Node { value: tree(v.get_ref(), from, at)?, from });
            }
            Value::List(nodes)
        }
        DeValue::Table(table) => {
            let mut nodes = BTreeMap::new();
            for (key, v) in table.iter() {
                let from = at(key.span().start);
                nodes.insert(key.get_ref().to_string(), Node { value: tree(v.get_ref(), from, at)?, from });
            }
            Value::Table(nodes)
        }
    })
}

/// A table of the description. What is asked for is noted; [`Section::finish`] refuses the rest.
pub struct Section<'a> {
    document: &'a str,
    path: String,
    from: Origin,
    table: &'a BTreeMap<String, Node>,
    known: RefCell<Vec<&'static str>>,
}
macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident -> $ty:ty, $what:literal: $($pattern:pat $(if $guard:expr)? => $result:expr),+;)*) => { $(
        $(#[$doc])*
        ///
        /// # Errors
        /// `Usage`: it is there and is something else.
        pub fn $name(&self, key: &'static str) -> Result<Option<$ty>, Failure> {
            let Some(node) = self.node(key) else { return Ok(None) };
            match &node.value {
                $($pattern $(if $guard)? => Ok(Some($result)),)+
                other => Err(self.refuse(node.from, format!("`{}` takes {}, not {}", self.full(key), $what, other.kind()))),
            }
        }
    )* };
}
impl<'a> Section<'a> {
    fn of(document: &'a str, path: &str, node: &'a Node) -> Result<Section<'a>, Failure> {
        let section = |table| Section { document, path: path.into(), from: node.from, table, known: RefCell::default() };
        static EMPTY: BTreeMap<String, Node> = BTreeMap::new();
        match &node.value {
            Value::Table(table) => Ok(section(table)),
            other => Err(section(&EMPTY).refuse(node.from, format!("`{path}` is a table, not {}", other.kind()))),
        }
    }
    fn full(&self, key: &str) -> String {
        if self.path.is_empty() { key.into() } else { format!("{}.{key}", self.path) }
    }
    fn node(&self, key: &'static str) -> Option<&'a Node> {
        self.known.borrow_mut().push(key);
        self.table.get(key)
    }
    fn refuse(&self, from: Origin, what: String) -> Failure {
        match from {
            Origin::Line(line) => Failure::Input(format!("{}:{line}: {what}", self.document)),
            Origin::CommandLine => Failure::Usage(format!("--set: {what}")),
        }
    }
    /// An error about this section.
    pub fn wrong(&self, what: impl Into<String>) -> Failure {
        self.refuse(self.from, what.into())
    }
    /// An error about a key of this section.
    pub fn wrong_key(&self, key: &str, what: impl std::fmt::Display) -> Failure {
        self.refuse(self.table.get(key).map_or(self.from, |n| n.from), format!("`{}`: {what}", self.full(key)))
    }
    getters! {
        /// A number.
        number -> f64, "a number": Value::Float(v) => *v, Value::Int(v) => *v as f64;
        /// A size: an integer that is not negative.
        size -> usize, "an integer from 0 on": Value::Int(v) if *v >= 0 => *v as usize;
        /// An integer.
        int -> i64, "an integer": Value::Int(v) => *v;
        /// True or false.
        flag -> bool, "true or false": Value::Flag(v) => *v;
        /// A text.
        text -> &'a str, "a text": Value::Text(v) => v.as_str();
    }
    /// Two numbers.
    ///
    /// # Errors
    /// `Usage`: it is there and is something else.
    pub fn pair(&self, key: &'static str) -> Result<Option<(f64, f64)>, Failure> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let number = |n: &Node| match n.value {
            Value::Float(v) => Some(v),
            Value::Int(v) => Some(v as f64),
            _ => None,
        };
        let pair = match &node.value {
            Value::List(l) if l.len() == 2 => number(&l[0]).zip(number(&l[1])),
            _ => None,
        };
        pair.map(Some).ok_or_else(|| self.refuse(node.from, format!("`{}` takes two numbers, as [0.9, 0.999]", self.full(key))))
    }
    /// One integer or a list of them.
    ///
    /// # Errors
    /// `Usage`: it is there and is something else.
    pub fn ints(&self, key: &'static str) -> Result<Option<Vec<i64>>, Failure> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let one = |n: &Node| if let Value::Int(v) = n.value { Some(v) } else { None };
        let all: Option<Vec<i64>> = match &node.value {
            Value::List(l) => l.iter().map(one).collect(),
            _ => one(node).map(|v| vec![v]),
        };
        all.map(Some).ok_or_else(|| self.refuse(node.from, format!("`{}` takes an integer or a list of integers", self.full(key))))
    }
    /// One size or a list of them.
    ///
    /// # Errors
    /// `Usage`: it is there and is something else.
    pub fn sizes(&self, key: &'static str) -> Result<Option<Vec<usize>>, Failure> {
        match self.ints(key)? {
            None => Ok(None),
            Some(v) if v.iter().all(|v| *v >= 0) => Ok(Some(v.into_iter().map(|v| v as usize).collect())),
            Some(_) => Err(self.wrong_key(key, "sizes are not negative")),
        }
    }
    /// A table.
    ///
    /// # Errors
    /// `Usage`: it is there and is something else.
    pub fn section(&self, key: &'static str) -> Result<Option<Section<'a>>, Failure> {
        let Some(node) = self.node(key) else { return Ok(None) };
        Section::of(self.document, &self.full(key), node).map(Some)
    }
    /// A list of tables.
    ///
    /// # Errors
    /// `Usage`: it is there and is something else.
    pub fn sections(&self, key: &'static str) -> Result<Option<Vec<Section<'a>>>, Failure> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let Value::List(list) = &node.value else {
            return Err(self.refuse(node.from, format!("`{}` takes a list of tables, not {}", self.full(key), node.value.kind())));
        };
        list.iter().enumerate().map(|(k, n)| Section::of(self.document, &format!("{}.{k}", self.full(key)), n)).collect::<Result<_, _>>().map(Some)
    }
    /// What must be there.
    ///
    /// # Errors
    /// `Usage`: it is missing.
    pub fn need<T>(&self, key: &'static str, value: Option<T>) -> Result<T, Failure> {
        value.ok_or_else(|| self.wrong(format!("`{}` is missing", self.full(key))))
    }
    /// The `kind` of the section, one of those given.
    ///
    /// # Errors
    /// `Usage`: it is missing or another, with the nearest spelling.
    pub fn kind(&self, kinds: &[&'static str]) -> Result<&'static str, Failure> {
        let given = self.need("kind", self.text("kind")?)?;
        kinds.iter().find(|k| **k == given).copied().ok_or_else(|| {
            let hint = match nearest(given, kinds.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", kinds.join(", ")),
            };
            self.wrong_key("kind", format!("there is no `{given}`; {hint}"))
        })
    }
    /// Keys that may be there, though nobody has come to ask for them.
    pub(crate) fn expect(&self, keys: &[&'static str]) {
        self.known.borrow_mut().extend(keys);
    }
    /// Refuses the keys that nobody asked for.
    ///
    /// # Errors
    /// `Usage`: the first such key, with its line and the nearest known spelling.
    pub fn finish(&self) -> Result<(), Failure> {
        self.unknown().into_iter().next().map_or(Ok(()), Err)
    }
    /// All keys that nobody asked for, each as an error with its line and the nearest known spelling.
    pub fn unknown(&self) -> Vec<Failure> {
        let known = self.known.borrow();
        self.table.iter().filter(|(k, _)| !known.contains(&k.as_str())).map(|(key, node)| self.no_key(&known, key, node)).collect()
    }
    fn no_key(&self, known: &[&'static str], key: &str, node: &Node) -> Failure {
        let hint = match nearest(key, known.iter().copied()) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => {
                let mut all = known.to_vec();
                all.sort_unstable();
                all.dedup();
                format!("; there are {}", all.join(", "))
            }
        };
        self.refuse(node.from, format!("unknown key `{}`{hint}", self.full(key)))
    }
}
