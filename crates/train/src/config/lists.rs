//! Values of a description that may be one or several, or of one kind or another: columns by name or number, a share or a
//! rule.
use super::{Node, Section, Value};
use crate::Failure;

impl Section<'_> {
    /// One column or a list of them, each by its name or its number, as texts.
    ///
    /// # Errors
    /// `Usage`: it is there and is something else.
    pub fn columns(&self, key: &'static str) -> Result<Option<Vec<String>>, Failure> {
        self.each(key, "a name or a number of a column, or a list of them", |node| match &node.value {
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
        self.each(key, "a text or a list of texts", |node| if let Value::Text(text) = &node.value { Some(text.clone()) } else { None })
    }
    /// One number or a list of them.
    ///
    /// # Errors
    /// `Usage`: it is there and is something else.
    pub fn numbers(&self, key: &'static str) -> Result<Option<Vec<f64>>, Failure> {
        self.each(key, "a number or a list of numbers", |node| match node.value {
            Value::Float(v) => Some(v),
            Value::Int(v) => Some(v as f64),
            _ => None,
        })
    }
    fn each<T>(&self, key: &'static str, what: &str, one: impl Fn(&Node) -> Option<T>) -> Result<Option<Vec<T>>, Failure> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let all: Option<Vec<T>> = match &node.value {
            Value::List(list) => list.iter().map(one).collect(),
            _ => one(node).map(|v| vec![v]),
        };
        all.map(Some).ok_or_else(|| self.refuse(node.from, format!("`{}` takes {what}, not {}", self.full(key), node.value.kind())))
    }
    /// Is the key there, and a table?
    pub(crate) fn is_table(&self, key: &'static str) -> bool {
        matches!(self.node(key), Some(Node { value: Value::Table(_), .. }))
    }
    /// Is the key there, and an integer?
    pub(crate) fn is_int(&self, key: &'static str) -> bool {
        matches!(self.node(key), Some(Node { value: Value::Int(_), .. }))
    }
    /// Is the key there, and a list?
    pub(crate) fn is_list(&self, key: &'static str) -> bool {
        matches!(self.node(key), Some(Node { value: Value::List(_), .. }))
    }
    /// Is the key there, and a text?
    pub(crate) fn is_text(&self, key: &'static str) -> bool {
        matches!(self.node(key), Some(Node { value: Value::Text(_), .. }))
    }
}
