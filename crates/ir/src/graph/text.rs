//! A graph as text: one definition a line, in a fixed order, with names that follow from what a value is and not from where it
//! stands. `docs/graph-text.md` has the grammar; [`super::parse`] reads it.
use super::{Environment, Graph, GraphError, Type, form, hash, number};
use crate::{Arg, Attr, DType, DeviceId, Scalar, scope};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Write,
    sync::Arc,
};

/// The first line.
pub(super) const HEAD: &str = "adamant graph 1";
/// Constants of at most so many elements stand in the text.
const INLINE: usize = 32;

/// A graph's text, and the constants that are too large for it.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// the text
    pub text: String,
    /// the elements of the constants that the text names by a hash of their content, the lowest byte of each first
    pub blobs: BTreeMap<u128, Arc<[u8]>>,
}

impl Graph {
    /// The graph as text, which [`Graph::parse`] reads back.
    ///
    /// # Errors
    /// The elements of a constant cannot be had.
    pub fn text(&self, environment: &dyn Environment) -> Result<Written, GraphError> {
        let names = self.all_names();
        let name = |v: u32| Name('%', &names[v as usize]);
        let mut blobs = BTreeMap::new();
        let mut lines: Vec<String> = Vec::with_capacity(self.nodes.len());
        let mut context = form::FormContext { home: self.home, groups: Vec::new(), environment };
        let on =
            |place: DeviceId| if place == self.home { String::new() } else { format!(" on {}", quoted(&form::device_name(place, self.home, environment))) };
        let typed = |v: u32| format!("{}: {}{}", name(v), self.values[v as usize], on(self.places[v as usize]));
        for node in &self.nodes {
            let inputs: Vec<Type> = node.inputs.iter().map(|&v| self.values[v as usize]).collect();
            let mut line = node.outputs.clone().map(typed).collect::<Vec<_>>().join(", ");
            let read: Vec<String> = node.inputs.iter().map(|&v| name(v).to_string()).collect();
            let _ = write!(line, " = {}({})", node.op.name(), read.join(", "));
            let attrs = form::attributes(&node.op, &inputs, &mut context);
            if !attrs.is_empty() {
                let attrs: Vec<String> = attrs.iter().map(|(name, attr)| format!("{name}: {}", attr_text(attr))).collect();
                let _ = write!(line, " {{{}}}", attrs.join(", "));
            }
            let _ = match node.arg {
                Arg::None => Ok(()),
                Arg::Start(start) => write!(line, " from {start}"),
                Arg::Scalar(s) => write!(line, " with {}", scalar_text(s)),
            };
            let scope = scope::path(node.scope);
            if !scope.is_empty() {
                let _ = write!(line, " in {}", path_text(&scope));
            }
            lines.push(line);
        }
        let mut text = format!("{HEAD}\n");
        for (k, group) in context.groups.iter().enumerate() {
            let _ = writeln!(text, "group {k}: ranks {}", group.size);
        }
        for (k, cell) in self.cells.iter().enumerate() {
            let trainable = if cell.trainable { " trainable" } else { "" };
            let cell_name = self.cell_name(k);
            let _ = writeln!(text, "cell {}: {}{}{trainable}", Name('@', &cell_name), cell.ty, on(cell.place));
        }
        self.inputs.iter().for_each(|&v| text += &format!("input {}\n", typed(v)));
        for constant in &self.constants {
            let v = constant.value;
            let bytes = constant.data.bytes().map_err(|why| GraphError::Constant { value: v, why: Box::new(why) })?;
            text += &format!("constant {} = {}\n", typed(v), constant_text(&bytes, self.values[v as usize].dtype, &mut blobs));
        }
        for (k, cell) in self.cells.iter().enumerate() {
            if let Some(v) = cell.read {
                let _ = writeln!(text, "read {} = {}", name(v), Name('@', &self.cell_name(k)));
            }
        }
        for line in lines {
            text += &line;
            text.push('\n');
        }
        for w in &self.writes {
            let group = if w.group == 0 { String::new() } else { format!(" group {}", w.group) };
            let _ = writeln!(text, "write {} = {}{group}", Name('@', &self.cell_name(w.cell as usize)), name(w.value));
        }
        let outputs: Vec<String> = self.outputs.iter().map(|&v| name(v).to_string()).collect();
        text += format!("return {}", outputs.join(", ")).trim_end();
        text.push('\n');
        Ok(Written { text, blobs })
    }
    /// The name of a cell: its own, or one by the order in which cells were touched.
    pub(super) fn cell_name(&self, k: usize) -> String {
        self.cells.get(k).and_then(|c| c.name.as_deref()).map_or_else(|| format!("cell.{k}"), str::to_string)
    }
    /// Gives every value and every cell a name, which it then keeps whatever a pass does around it.
    pub(super) fn name_values(&mut self) {
        for k in 0..self.cells.len() {
            self.cells[k].name = Some(self.cell_name(k).into());
        }
        self.names = self.all_names().into_iter().enumerate().map(|(v, name)| (v as u32, name)).collect();
    }
    /// A name for each value, no two alike: its own, or that of its cell, or its layer and op.
    fn all_names(&self) -> Vec<Arc<str>> {
        let mut names: Vec<Option<Arc<str>>> = vec![None; self.values.len()];
        let mut fresh = FreshNames::default();
        for (&v, own) in &self.names {
            if let Some(place) = names.get_mut(v as usize) {
                *place = Some(fresh.name(own));
            }
        }
        let mut give = |names: &mut Vec<Option<Arc<str>>>, v: u32, base: &str| {
            if names[v as usize].is_none() {
                names[v as usize] = Some(fresh.name(base));
            }
        };
        self.inputs.iter().enumerate().for_each(|(k, &v)| give(&mut names, v, &format!("input.{k}")));
        for (k, cell) in self.cells.iter().enumerate() {
            if let Some(v) = cell.read {
                give(&mut names, v, &self.cell_name(k));
            }
        }
        self.constants.iter().for_each(|c| give(&mut names, c.value, "constant"));
        for node in &self.nodes {
            let op = node.op.name().rsplit('.').next().unwrap_or_default();
            let scope = scope::path(node.scope);
            let base = if scope.is_empty() { op.to_string() } else { format!("{scope}.{op}") };
            node.outputs.clone().for_each(|v| give(&mut names, v, &base));
        }
        names.into_iter().map(|name| name.unwrap_or_else(|| fresh.name("undefined"))).collect()
    }
}
/// Names that nobody has yet.
#[derive(Default)]
struct FreshNames {
    used: HashSet<Arc<str>>,
    count: HashMap<String, usize>,
}
impl FreshNames {
    /// The name itself, or with the first number behind it that makes it new.
    fn name(&mut self, base: &str) -> Arc<str> {
        let mut name: Arc<str> = base.into();
        while !self.used.insert(name.clone()) {
            let count = self.count.entry(base.into()).or_default();
            *count += 1;
            name = format!("{base}.{count}").into();
        }
        name
    }
}

/// May a name stand without quotes?
pub(super) fn is_bare(name: &str) -> bool {
    !name.is_empty() && name.chars().all(in_name)
}
/// A letter of a name without quotes.
pub(super) fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '-'
}
/// A name behind its mark, in quotes where it needs them.
struct Name<'a>(char, &'a str);
impl std::fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if is_bare(self.1) { write!(f, "{}{}", self.0, self.1) } else { write!(f, "{}{}", self.0, quoted(self.1)) }
    }
}
/// The path of a layer, in quotes where it is no word.
fn path_text(path: &str) -> String {
    let begins = path.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if begins && is_bare(path) { path.to_string() } else { quoted(path) }
}
/// A text in quotes.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        let _ = match c {
            '"' | '\\' => write!(out, "\\{c}"),
            c if c.is_control() => write!(out, "\\u{{{:x}}}", u32::from(c)),
            c => write!(out, "{c}"),
        };
    }
    out.push('"');
    out
}
fn float_text(v: f64) -> String {
    let mut out = String::new();
    number::write_bits(&mut out, v.to_bits(), DType::F64);
    out
}
fn scalar_text(s: Scalar) -> String {
    match s {
        Scalar::Bool(v) => v.to_string(),
        Scalar::Int(v) => v.to_string(),
        Scalar::Float(v) => float_text(v),
    }
}
fn attr_text(attr: &Attr) -> String {
    match attr {
        Attr::Bool(v) => v.to_string(),
        Attr::Int(v) => v.to_string(),
        Attr::Float(v) => float_text(*v),
        Attr::Text(v) => quoted(v),
        Attr::Ints(v) => format!("{:?}", v.as_slice()),
        Attr::DType(v) => v.to_string(),
    }
}
fn constant_text(bytes: &Arc<[u8]>, dtype: DType, blobs: &mut BTreeMap<u128, Arc<[u8]>>) -> String {
    let count = bytes.len() / dtype.size();
    if count > INLINE {
        let hash = hash::content(bytes);
        blobs.insert(hash, bytes.clone());
        return format!("#{hash:032x}");
    }
    let mut out = String::from("[");
    for k in 0..count {
        out += if k > 0 { ", " } else { "" };
        number::write_bits(&mut out, number::bits_at(bytes, k, dtype.size()), dtype);
    }
    out.push(']');
    out
}
