//! A table of a description. What is asked for is noted, so that [`Section::finish`] can refuse the rest, and so that a
//! [check](super::check) knows every key that a section could have had: a reader that asks for a new key has said so by that.
mod lists;

use super::{ConfigNode, Document, KeyOrigin, Value};
use crate::{Failure, failure::shown};
use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

/// The largest size: a product of two of them still is an integer.
pub(crate) const LARGEST_SIZE: usize = i32::MAX as usize;
/// The largest number of steps or epochs, and the largest seed.
const LARGEST_COUNT: i64 = 1 << 53;

/// A table of the description. What is asked for is noted; [`Section::finish`] refuses the rest.
#[derive(Clone)]
pub struct Section<'a> {
    document: &'a str,
    path: String,
    from: KeyOrigin,
    table: &'a BTreeMap<String, ConfigNode>,
    notes: Rc<SectionNotes<'a>>,
}
/// What was asked of the sections of a document, all together.
#[derive(Default)]
pub(super) struct SectionNotes<'a> {
    /// Is the description only checked? Then keys that are unknown are told at the end of the check, with what is missing.
    pub checking: bool,
    /// by the section's path
    pub asked: RefCell<BTreeMap<String, SectionAsked<'a>>>,
    /// the fault that was found last
    pub fault: RefCell<Option<KeyFault>>,
}
/// What was asked of one section.
pub(super) struct SectionAsked<'a> {
    pub from: KeyOrigin,
    pub table: &'a BTreeMap<String, ConfigNode>,
    pub known: Vec<&'static str>,
    /// Is every key one that it may have?
    pub any: bool,
    /// Has its reader asked for all it wants?
    pub finished: bool,
    /// Is it not there, and only thought to be?
    pub imagined: bool,
    /// values that a check puts in place of what is wrong, to find out what else is
    pub instead: BTreeMap<String, Instead>,
}
/// What a check puts in place of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Instead {
    Nothing,
    Plausible,
}
/// A fault of a key.
#[derive(Clone)]
pub(super) struct KeyFault {
    pub from: KeyOrigin,
    pub path: String,
    /// the key, or those of which one is missing; none where the whole section is at fault
    pub keys: Vec<String>,
    pub missing: bool,
    /// Is it at fault whatever the other keys say?
    pub certain: bool,
    pub failure: Failure,
}
impl SectionNotes<'_> {
    fn instead(&self, path: &str, key: &str) -> Option<Instead> {
        self.asked.borrow().get(path).and_then(|asked| asked.instead.get(key).copied())
    }
}
/// What is said of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SaidOfKey {
    Missing,
    Type,
    Value,
}
/// A value as a key's reader sees it.
enum FoundKey<'a> {
    Absent,
    There(&'a ConfigNode),
    /// Whatever the reader would take.
    Plausible,
}
static EMPTY: BTreeMap<String, ConfigNode> = BTreeMap::new();
/// A section that a check puts in the place of one that is missing.
static IMAGINED: ConfigNode = ConfigNode { value: Value::Table(BTreeMap::new()), from: KeyOrigin::CommandLine };

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident -> $ty:ty, $what:expr, $plausible:expr, $($pattern:pat $(if $guard:expr)? => $result:expr),+;)*) => { $(
        $(#[$doc])*
        ///
        /// # Errors
        /// `Usage`: it is there and is something else.
        pub fn $name(&self, key: &'static str) -> Result<Option<$ty>, Failure> {
            match self.find(key) {
                FoundKey::Absent => Ok(None),
                FoundKey::Plausible => Ok(Some($plausible)),
                FoundKey::There(node) => match &node.value {
                    $($pattern $(if $guard)? => Ok(Some($result)),)+
                    other => Err(self.not_taken(key, node, &$what, other)),
                },
            }
        }
    )* };
}
impl<'a> Section<'a> {
    pub(super) fn root(document: &'a Document, checking: bool) -> Result<Section<'a>, Failure> {
        Section::of(&document.name, "", &document.root, Rc::new(SectionNotes { checking, ..SectionNotes::default() }))
    }
    pub(super) fn notes(&self) -> Rc<SectionNotes<'a>> {
        self.notes.clone()
    }
    fn of(document: &'a str, path: &str, node: &'a ConfigNode, notes: Rc<SectionNotes<'a>>) -> Result<Section<'a>, Failure> {
        let section = |table| Section { document, path: path.into(), from: node.from, table, notes: notes.clone() };
        let Value::Table(table) = &node.value else {
            let (above, key) = path.rsplit_once('.').unwrap_or(("", path));
            let what = format!("`{}` is a table, not {}", shown(path), node.value.kind());
            let of = Section { path: above.into(), ..section(&EMPTY) };
            return Err(of.refuse(node.from, &[key], SaidOfKey::Type, what));
        };
        let imagined = std::ptr::eq(node, &IMAGINED);
        let asked = SectionAsked { from: node.from, table, known: Vec::new(), any: false, finished: false, imagined, instead: BTreeMap::new() };
        notes.asked.borrow_mut().entry(path.into()).or_insert(asked);
        Ok(section(table))
    }
    /// Where it stands in the description: `model.layers.2`.
    pub(crate) fn path(&self) -> String {
        shown(&self.path)
    }
    /// Is the key there?
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }
    /// The first key whose value is a negative number.
    pub(crate) fn negative(&self) -> Option<&'a str> {
        let negative = |value: &Value| matches!(value, Value::Int(v) if *v < 0) || matches!(value, Value::Float(v) if *v < 0.0);
        self.table.iter().find(|(_, node)| negative(&node.value)).map(|(key, _)| key.as_str())
    }
    fn full(&self, key: &str) -> String {
        shown(&if self.path.is_empty() { key.into() } else { format!("{}.{key}", self.path) })
    }
    fn note(&self, key: &'static str) {
        if let Some(asked) = self.notes.asked.borrow_mut().get_mut(&self.path)
            && !asked.known.contains(&key)
        {
            asked.known.push(key);
        }
    }
    /// No key of it is unknown.
    fn takes_any(&self) {
        self.notes.asked.borrow_mut().get_mut(&self.path).into_iter().for_each(|asked| asked.any = true);
    }
    fn find(&self, key: &'static str) -> FoundKey<'a> {
        self.note(key);
        match self.notes.instead(&self.path, key) {
            Some(Instead::Plausible) => FoundKey::Plausible,
            Some(Instead::Nothing) => FoundKey::Absent,
            None => self.table.get(key).map_or(FoundKey::Absent, FoundKey::There),
        }
    }
    fn refuse(&self, from: KeyOrigin, keys: &[&str], about: SaidOfKey, what: String) -> Failure {
        let failure = match from {
            KeyOrigin::Line(line) => Failure::Input(format!("{}:{line}: {what}", self.document)),
            KeyOrigin::CommandLine => Failure::Usage(format!("--set: {what}")),
        };
        let keys = keys.iter().map(|k| k.to_string()).collect();
        *self.notes.fault.borrow_mut() = Some(KeyFault {
            from,
            path: self.path.clone(),
            keys,
            missing: about == SaidOfKey::Missing,
            certain: about != SaidOfKey::Value,
            failure: failure.clone(),
        });
        failure
    }
    fn not_taken(&self, key: &str, node: &ConfigNode, what: &str, given: &Value) -> Failure {
        let given = match given {
            Value::Text(text) if text.starts_with('$') => format!("`{}`, which these data do not tell", shown(text)),
            Value::Float(v) if !v.is_finite() => v.to_string(),
            Value::Int(v) if v.unsigned_abs() > LARGEST_SIZE as u64 => v.to_string(),
            other => other.kind().into(),
        };
        self.refuse(node.from, &[key], SaidOfKey::Type, format!("`{}` takes {what}, not {given}", self.full(key)))
    }
    /// An error about this section. Where the text names one of its keys, the error is that key's.
    pub fn wrong(&self, what: impl Into<String>) -> Failure {
        let what = what.into();
        let mut words = what.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        if let Some(key) = words.find(|word| *word != "kind" && self.table.contains_key(*word)) {
            return self.wrong_key(key, &what);
        }
        let what = if self.path.is_empty() || what.starts_with('`') { what } else { format!("`{}`: {what}", shown(&self.path)) };
        self.refuse(self.from, &[], SaidOfKey::Value, what)
    }
    /// An error about a key of this section.
    pub fn wrong_key(&self, key: &str, what: impl std::fmt::Display) -> Failure {
        let from = self.table.get(key).map_or(self.from, |n| n.from);
        self.refuse(from, &[key], SaidOfKey::Value, format!("`{}`: {what}", self.full(key)))
    }
    /// The error of keys of which one must be there, the most usual first.
    pub fn missing(&self, keys: &[&'static str], what: impl Into<String>) -> Failure {
        keys.iter().for_each(|key| self.note(key));
        self.refuse(self.from, keys, SaidOfKey::Missing, what.into())
    }
    getters! {
        /// A finite number.
        number -> f64, "a finite number", 0.5, Value::Float(v) if v.is_finite() => *v, Value::Int(v) => *v as f64;
        /// A number, infinity among them.
        any_number -> f64, "a number", 0.5, Value::Float(v) if !v.is_nan() => *v, Value::Int(v) => *v as f64;
        /// A size: an integer that is not negative and not beyond what can be counted in memory.
        size -> usize, format!("an integer from 0 to {LARGEST_SIZE}"), 1, Value::Int(v) if (0..=LARGEST_SIZE as i64).contains(v) => *v as usize;
        /// A number of steps or epochs, or a seed: an integer that is not negative.
        count -> u64, format!("an integer from 0 to {LARGEST_COUNT}"), 1, Value::Int(v) if (0..=LARGEST_COUNT).contains(v) => *v as u64;
        /// An integer as large as a size, or its negative.
        int -> i64, format!("an integer from -{LARGEST_SIZE} to {LARGEST_SIZE}"), 1, Value::Int(v) if v.unsigned_abs() <= LARGEST_SIZE as u64 => *v;
        /// True or false.
        flag -> bool, "true or false", false, Value::Flag(v) => *v;
        /// A text.
        text -> &'a str, "a text", "", Value::Text(v) => v.as_str();
    }
    /// Two finite numbers.
    ///
    /// # Errors
    /// `Usage`: it is there and is something else.
    pub fn pair(&self, key: &'static str) -> Result<Option<(f64, f64)>, Failure> {
        let node = match self.find(key) {
            FoundKey::Absent => return Ok(None),
            FoundKey::Plausible => return Ok(Some((0.5, 0.5))),
            FoundKey::There(node) => node,
        };
        let number = |n: &ConfigNode| match n.value {
            Value::Float(v) if v.is_finite() => Some(v),
            Value::Int(v) => Some(v as f64),
            _ => None,
        };
        let pair = match &node.value {
            Value::List(l) if l.len() == 2 => number(&l[0]).zip(number(&l[1])),
            _ => None,
        };
        pair.map(Some).ok_or_else(|| self.refuse(node.from, &[key], SaidOfKey::Type, format!("`{}` takes two finite numbers, as [0.9, 0.999]", self.full(key))))
    }
    /// One integer or a list of them.
    ///
    /// # Errors
    /// `Usage`: it is there and is something else.
    pub fn ints(&self, key: &'static str) -> Result<Option<Vec<i64>>, Failure> {
        let node = match self.find(key) {
            FoundKey::Absent => return Ok(None),
            FoundKey::Plausible => return Ok(Some(vec![1])),
            FoundKey::There(node) => node,
        };
        let one = |n: &ConfigNode| match n.value {
            Value::Int(v) if v.unsigned_abs() <= LARGEST_SIZE as u64 => Some(v),
            _ => None,
        };
        let all: Option<Vec<i64>> = match &node.value {
            Value::List(l) => l.iter().map(one).collect(),
            _ => one(node).map(|v| vec![v]),
        };
        let what = format!("`{}` takes an integer or a list of integers, each at most {LARGEST_SIZE}", self.full(key));
        all.map(Some).ok_or_else(|| self.refuse(node.from, &[key], SaidOfKey::Type, what))
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
    /// A size in a range.
    ///
    /// # Errors
    /// `Usage`: it is there and is something else.
    pub fn size_in(&self, key: &'static str, range: std::ops::RangeInclusive<usize>) -> Result<Option<usize>, Failure> {
        match self.size(key)? {
            Some(v) if !range.contains(&v) => Err(self.wrong_key(key, format!("{v} is not from {} to {}", range.start(), range.end()))),
            v => Ok(v),
        }
    }
    /// A table.
    ///
    /// # Errors
    /// `Usage`: it is there and is something else.
    pub fn section(&self, key: &'static str) -> Result<Option<Section<'a>>, Failure> {
        let node = match self.find(key) {
            FoundKey::Absent => return Ok(None),
            FoundKey::Plausible => &IMAGINED,
            FoundKey::There(node) => node,
        };
        let path = if self.path.is_empty() { key.into() } else { format!("{}.{key}", self.path) };
        Section::of(self.document, &path, node, self.notes.clone()).map(Some)
    }
    /// A list of tables.
    ///
    /// # Errors
    /// `Usage`: it is there and is something else.
    pub fn sections(&self, key: &'static str) -> Result<Option<Vec<Section<'a>>>, Failure> {
        let node = match self.find(key) {
            FoundKey::Absent => return Ok(None),
            FoundKey::Plausible => return Ok(Some(Vec::new())),
            FoundKey::There(node) => node,
        };
        let Value::List(list) = &node.value else { return Err(self.not_taken(key, node, "a list of tables", &node.value)) };
        let path = if self.path.is_empty() { key.into() } else { format!("{}.{key}", self.path) };
        list.iter().enumerate().map(|(k, n)| Section::of(self.document, &format!("{path}.{k}"), n, self.notes.clone())).collect::<Result<_, _>>().map(Some)
    }
    /// What must be there.
    ///
    /// # Errors
    /// `Usage`: it is missing.
    pub fn need<T>(&self, key: &'static str, value: Option<T>) -> Result<T, Failure> {
        value.ok_or_else(|| self.missing(&[key], format!("`{}` is missing", self.full(key))))
    }
    /// The `kind` of the section, one of those given.
    ///
    /// # Errors
    /// `Usage`: it is missing or another, with the nearest spelling.
    pub fn kind(&self, kinds: &[&'static str]) -> Result<&'static str, Failure> {
        let given = self.need("kind", self.text("kind")?)?;
        kinds.iter().find(|k| **k == given).copied().ok_or_else(|| {
            let hint = match super::check::nearest(given, kinds.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", kinds.join(", ")),
            };
            self.wrong_key("kind", format!("there is no `{}`; {hint}", shown(given)))
        })
    }
    /// An error of what this section is about: where a file cannot be opened, it is said at the line of the key that names it,
    /// else at that of the section.
    pub(crate) fn blame(&self, failure: Failure) -> Failure {
        let text = match &failure {
            Failure::Input(text) => text,
            // Options that what reads the data does not take.
            Failure::Run(text) => return self.wrong(text),
            _ => return failure,
        };
        if text.starts_with(&format!("{}:", self.document)) {
            return failure;
        }
        let names =
            |node: &ConfigNode| text.contains("os error") && matches!(&node.value, Value::Text(value) if value.len() > 2 && text.contains(value.as_str()));
        let key = self.table.iter().find(|(key, node)| *key != "kind" && names(node)).map(|(key, _)| key);
        match key {
            Some(key) => self.wrong_key(key, text),
            None => self.refuse(self.from, &[], SaidOfKey::Value, format!("`{}`: {text}", self.path())),
        }
    }
    /// Refuses the keys that nobody asked for.
    ///
    /// # Errors
    /// `Usage`: the first such key, with its line and the nearest known spelling.
    pub fn finish(&self) -> Result<(), Failure> {
        let unknown = {
            let mut asked = self.notes.asked.borrow_mut();
            let Some(asked) = asked.get_mut(&self.path) else { return Ok(()) };
            asked.finished = true;
            if self.notes.checking { None } else { asked.unknown().first().copied() }
        };
        unknown.map_or(Ok(()), |(key, node)| Err(self.no_key(key, node).failure))
    }
    /// The fault of a key that nobody asked for.
    pub(super) fn no_key(&self, key: &str, node: &ConfigNode) -> KeyFault {
        let (hint, near) = {
            let asked = self.notes.asked.borrow();
            let known = asked.get(&self.path).map_or(&[][..], |asked| asked.known.as_slice());
            // A key that is there already is not what was meant.
            let near = super::check::nearest(key, known.iter().copied().filter(|k| !self.table.contains_key(*k)));
            let near = near.or_else(|| super::check::nearest(key, known.iter().copied()));
            let hint = match near {
                Some(near) => format!("; did you mean `{near}`?"),
                None => {
                    let mut all = known.to_vec();
                    all.sort_unstable();
                    format!("; there are {}", all.join(", "))
                }
            };
            (hint, near)
        };
        let failure = self.refuse(node.from, &[key], SaidOfKey::Type, format!("unknown key `{}`{hint}", self.full(key)));
        KeyFault { from: node.from, path: self.path.clone(), keys: near.map(str::to_string).into_iter().collect(), missing: false, certain: true, failure }
    }
    /// The section of this path, of which something was asked before.
    pub(super) fn again(&self, path: &str) -> Option<Section<'a>> {
        let asked = self.notes.asked.borrow();
        let asked = asked.get(path)?;
        Some(Section { document: self.document, path: path.into(), from: asked.from, table: asked.table, notes: self.notes.clone() })
    }
}
impl<'a> SectionAsked<'a> {
    /// The keys that nobody asked for.
    pub fn unknown(&self) -> Vec<(&'a str, &'a ConfigNode)> {
        self.table.iter().filter(|(k, _)| !self.any && !self.known.contains(&k.as_str())).map(|(k, n)| (k.as_str(), n)).collect()
    }
}
