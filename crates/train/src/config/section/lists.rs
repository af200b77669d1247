//! Values of a description that may be one or several, or of one kind or another: columns by name or number, a share or a
//! rule.
use super::{FoundKey, Section};
use crate::{
    Failure,
    config::{ConfigNode, Value},
};

impl<'a> Section<'a> {
    /// One column or a list of them, each by its name or its number, as texts.
    ///
    /// # Errors
    /// `Usage`: it is there and is something else.
    pub fn columns(&self, key: &'static str) -> Result<Option<Vec<String>>, Failure> {
        self.each(key, "a name or a number of a column, or a list of them", |value| match value {
            Value::Text(text) => Some(text.clone()),
            Value::Int(number) if *number >= 0 => Some(number.to_string()),
            _ => None,
        })
    }
    /// One text or a list of them.
    ///
    /// # Errors
    /// `Usage`: it is there and is something else.
    pub fn texts(&self, key: &'static str) -> Result<Option<Vec<String>>, Failure> {
        self.each(key, "a text or a list of texts", |value| if let Value::Text(text) = value { Some(text.clone()) } else { None })
    }
    /// One finite number or a list of them.
    ///
    /// # Errors
    /// `Usage`: it is there and is something else.
    pub fn numbers(&self, key: &'static str) -> Result<Option<Vec<f64>>, Failure> {
        self.each(key, "a finite number or a list of finite numbers", |value| match value {
            Value::Float(v) if v.is_finite() => Some(*v),
            Value::Int(v) => Some(*v as f64),
            _ => None,
        })
    }
    fn each<T>(&self, key: &'static str, what: &str, one: impl Fn(&'a Value) -> Option<T>) -> Result<Option<Vec<T>>, Failure> {
        let node = match self.find(key) {
            FoundKey::Absent => return Ok(None),
            FoundKey::Plausible => return Ok(Some(Vec::new())),
            FoundKey::There(node) => node,
        };
        let all: Option<Vec<T>> = match &node.value {
            Value::List(list) => list.iter().map(|n| one(&n.value)).collect(),
            value => one(value).map(|v| vec![v]),
        };
        all.map(Some).ok_or_else(|| self.not_taken(key, node, what, &node.value))
    }
    /// Every key and its text, in the order of the keys: of a section whose keys are patterns, none of which is unknown.
    ///
    /// # Errors
    /// `Usage`: a value that is something else.
    pub(crate) fn texts_by_key(&self) -> Result<Vec<(&'a str, &'a str)>, Failure> {
        self.takes_any();
        let text = |(key, node): (&'a String, &'a ConfigNode)| match &node.value {
            Value::Text(text) => Ok((key.as_str(), text.as_str())),
            other => Err(self.not_taken(key, node, "a text", other)),
        };
        self.table.iter().map(text).collect()
    }
    fn there(&self, key: &'static str) -> Option<&'a Value> {
        match self.find(key) {
            FoundKey::There(ConfigNode { value, .. }) => Some(value),
            FoundKey::Absent | FoundKey::Plausible => None,
        }
    }
    /// Is the key there, and a table?
    pub(crate) fn is_table(&self, key: &'static str) -> bool {
        matches!(self.there(key), Some(Value::Table(_)))
    }
    /// Is the key there, and an integer?
    pub(crate) fn is_int(&self, key: &'static str) -> bool {
        matches!(self.there(key), Some(Value::Int(_)))
    }
    /// Is the key there, and a list?
    pub(crate) fn is_list(&self, key: &'static str) -> bool {
        matches!(self.there(key), Some(Value::List(_)))
    }
    /// Is the key there, and a text?
    pub(crate) fn is_text(&self, key: &'static str) -> bool {
        matches!(self.there(key), Some(Value::Text(_)))
    }
}
