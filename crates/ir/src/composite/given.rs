//! Attributes as a text gave them, on their way into a composite or a primitive: each is taken once by name and kind, and
//! what nobody took is an error, so that a misspelt attribute is never a default.
use crate::{Attr, DType, ErrorKind, graph::nearest};
use std::borrow::Cow;

/// Attributes by name, to be taken.
///
/// ```
/// # use adamant_ir::composite::{Attr, Given};
/// let mut given = Given::new(vec![("axis".into(), Attr::Int(1)), ("eps".into(), Attr::Float(1e-5))]);
/// assert_eq!((given.size("axis").unwrap(), given.float("eps").unwrap()), (1, 1e-5));
/// assert!(given.bool("weight").is_err()); // it is not there
/// assert!(given.finish().is_ok()); // nothing is left over
/// ```
#[derive(Clone, Debug, Default)]
pub struct Given {
    left: Vec<(String, Attr)>,
    asked: Vec<&'static str>,
}
impl Given {
    /// These attributes.
    pub fn new(attrs: Vec<(String, Attr)>) -> Given {
        Given { left: attrs, asked: Vec::new() }
    }
    fn take(&mut self, name: &'static str) -> Option<Attr> {
        self.asked.push(name);
        let at = self.left.iter().position(|(n, _)| n == name)?;
        Some(self.left.remove(at).1)
    }
    fn need(&mut self, name: &'static str) -> Result<Attr, ErrorKind> {
        self.take(name).ok_or_else(|| ErrorKind::Argument(format!("the attribute `{name}` is missing")))
    }
    fn wrong<T>(name: &str, wanted: &str, attr: &Attr) -> Result<T, ErrorKind> {
        Err(ErrorKind::Argument(format!("the attribute `{name}` is {wanted}, not {attr}")))
    }
    /// true or false.
    ///
    /// # Errors
    /// It is missing or something else; so with all below.
    pub fn bool(&mut self, name: &'static str) -> Result<bool, ErrorKind> {
        match self.need(name)? {
            Attr::Bool(v) => Ok(v),
            other => Given::wrong(name, "true or false", &other),
        }
    }
    /// An integer.
    ///
    /// # Errors
    /// As [`Given::bool`].
    pub fn int(&mut self, name: &'static str) -> Result<i64, ErrorKind> {
        match self.need(name)? {
            Attr::Int(v) => Ok(v),
            other => Given::wrong(name, "an integer", &other),
        }
    }
    /// A size, a position or a number of things: at least 0, and less than 2^32, so that sums of a few never overflow.
    ///
    /// # Errors
    /// As [`Given::bool`].
    pub fn size(&mut self, name: &'static str) -> Result<usize, ErrorKind> {
        let int = self.int(name)?;
        size(name, int)
    }
    /// As [`Given::size`], of an attribute that may be absent.
    ///
    /// # Errors
    /// As [`Given::bool`].
    pub fn size_or_none(&mut self, name: &'static str) -> Result<Option<usize>, ErrorKind> {
        match self.take(name) {
            None => Ok(None),
            Some(Attr::Int(v)) => size(name, v).map(Some),
            Some(other) => Given::wrong(name, "an integer", &other),
        }
    }
    /// A number.
    ///
    /// # Errors
    /// As [`Given::bool`].
    pub fn float(&mut self, name: &'static str) -> Result<f64, ErrorKind> {
        match self.need(name)? {
            Attr::Float(v) => Ok(v),
            Attr::Int(v) => Ok(v as f64),
            other => Given::wrong(name, "a number", &other),
        }
    }
    /// A word.
    ///
    /// # Errors
    /// As [`Given::bool`].
    pub fn text(&mut self, name: &'static str) -> Result<Cow<'static, str>, ErrorKind> {
        match self.need(name)? {
            Attr::Text(v) => Ok(v),
            other => Given::wrong(name, "a word in quotes", &other),
        }
    }
    /// As [`Given::text`], of an attribute that may be absent.
    ///
    /// # Errors
    /// As [`Given::bool`].
    pub fn text_or_none(&mut self, name: &'static str) -> Result<Option<Cow<'static, str>>, ErrorKind> {
        match self.take(name) {
            None => Ok(None),
            Some(Attr::Text(v)) => Ok(Some(v)),
            Some(other) => Given::wrong(name, "a word in quotes", &other),
        }
    }
    /// Integers.
    ///
    /// # Errors
    /// As [`Given::bool`].
    pub fn ints(&mut self, name: &'static str) -> Result<Vec<i64>, ErrorKind> {
        match self.need(name)? {
            Attr::Ints(v) => Ok(v.into_vec()),
            other => Given::wrong(name, "a list of integers", &other),
        }
    }
    /// Sizes.
    ///
    /// # Errors
    /// As [`Given::bool`].
    pub fn sizes(&mut self, name: &'static str) -> Result<Vec<usize>, ErrorKind> {
        self.ints(name)?.into_iter().map(|v| size(name, v)).collect()
    }
    /// As [`Given::sizes`], none of an attribute that is absent.
    ///
    /// # Errors
    /// As [`Given::bool`].
    pub fn sizes_or_none(&mut self, name: &'static str) -> Result<Vec<usize>, ErrorKind> {
        if self.left.iter().any(|(n, _)| n == name) {
            return self.sizes(name);
        }
        self.asked.push(name);
        Ok(Vec::new())
    }
    /// A dtype.
    ///
    /// # Errors
    /// As [`Given::bool`].
    pub fn dtype(&mut self, name: &'static str) -> Result<DType, ErrorKind> {
        match self.need(name)? {
            Attr::DType(v) => Ok(v),
            other => Given::wrong(name, "a dtype", &other),
        }
    }
    /// Was everything taken?
    ///
    /// # Errors
    /// An attribute is left over; the one that was meant is named, if any is near.
    pub fn finish(&self) -> Result<(), ErrorKind> {
        let Some((name, _)) = self.left.first() else { return Ok(()) };
        let meant = nearest(name, self.asked.iter().copied()).map_or(String::new(), |n| format!("; did you mean `{n}`?"));
        Err(ErrorKind::Argument(format!("there is no attribute `{name}`, or it is given twice{meant}")))
    }
}
fn size(name: &str, v: i64) -> Result<usize, ErrorKind> {
    match u32::try_from(v) {
        Ok(v) => Ok(v as usize),
        Err(_) => Err(ErrorKind::Argument(format!("`{name}` lies between 0 and {}, not at {v}", u32::MAX))),
    }
}
