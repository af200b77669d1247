//! A case as a dispatch file sees it: the op's name, its tensors (on the device, viewed, tracked) and its arguments.
use super::manifest::Case;
use adamant::{DType, Error, ErrorKind, Scalar, Tensor};
use serde_json::Value;

/// One call of an op. Argument getters return an error that names the argument when it is missing or of another type;
/// `maybe_...` takes a missing or null argument for `None`, `..._or` for torch's default.
pub struct OpCall<'a> {
    case: &'a Case,
    inputs: Vec<Option<Tensor>>,
}

impl<'a> OpCall<'a> {
    /// A call with its inputs made.
    pub fn new(case: &'a Case, inputs: Vec<Option<Tensor>>) -> OpCall<'a> {
        OpCall { case, inputs }
    }
    /// torch's name of the op.
    pub fn op(&self) -> &'a str {
        &self.case.op
    }
    /// All that the manifest says.
    pub fn case(&self) -> &'a Case {
        self.case
    }
    /// Input k.
    pub fn tensor(&self, k: usize) -> Result<&Tensor, Error> {
        self.optional(k).ok_or_else(|| argument(format!("input {k} of {} is missing", self.case.op)))
    }
    /// Input k, unless it is null or not there.
    pub fn optional(&self, k: usize) -> Option<&Tensor> {
        self.inputs.get(k).and_then(Option::as_ref)
    }
    /// All inputs that are there, for ops of any number of tensors.
    pub fn tensors(&self) -> Vec<&Tensor> {
        self.inputs.iter().flatten().collect()
    }
    /// The argument as it stands in the manifest; null counts as not there.
    pub fn value(&self, name: &str) -> Option<&'a Value> {
        self.case.args.get(name).filter(|v| !v.is_null())
    }
    fn get<T>(&self, name: &str, wanted: &str, read: impl Fn(&'a Value) -> Option<T>) -> Result<Option<T>, Error> {
        self.value(name).map(|v| read(v).ok_or_else(|| argument(format!("argument `{name}` of {} is {v}, not {wanted}", self.case.op)))).transpose()
    }
    fn must<T>(&self, name: &str, found: Result<Option<T>, Error>) -> Result<T, Error> {
        found?.ok_or_else(|| argument(format!("argument `{name}` of {} is missing", self.case.op)))
    }

    /// An integer.
    pub fn int(&self, name: &str) -> Result<i64, Error> {
        self.must(name, self.maybe_int(name))
    }
    /// An integer or a default.
    pub fn int_or(&self, name: &str, default: i64) -> Result<i64, Error> {
        Ok(self.maybe_int(name)?.unwrap_or(default))
    }
    /// An integer, if given.
    pub fn maybe_int(&self, name: &str) -> Result<Option<i64>, Error> {
        self.get(name, "an integer", Value::as_i64)
    }
    /// A size: an integer that is not negative.
    pub fn size(&self, name: &str) -> Result<usize, Error> {
        usize::try_from(self.int(name)?).map_err(|_| argument(format!("argument `{name}` of {} is negative", self.case.op)))
    }
    /// A number.
    pub fn float(&self, name: &str) -> Result<f64, Error> {
        self.must(name, self.maybe_float(name))
    }
    /// A number or a default.
    pub fn float_or(&self, name: &str, default: f64) -> Result<f64, Error> {
        Ok(self.maybe_float(name)?.unwrap_or(default))
    }
    /// A number, if given. `"inf"` and `"-inf"` are numbers.
    pub fn maybe_float(&self, name: &str) -> Result<Option<f64>, Error> {
        self.get(name, "a number", |v| v.as_f64().or_else(|| v.as_str().filter(|s| matches!(*s, "inf" | "-inf" | "nan")).and_then(|s| s.parse().ok())))
    }
    /// A Python number: an integer stays one.
    pub fn scalar(&self, name: &str) -> Result<Scalar, Error> {
        self.must(name, self.maybe_scalar(name))
    }
    /// A Python number, if given.
    pub fn maybe_scalar(&self, name: &str) -> Result<Option<Scalar>, Error> {
        self.get(name, "a number", |v| match v {
            Value::Bool(b) => Some(Scalar::Bool(*b)),
            _ => v.as_i64().map(Scalar::Int).or_else(|| v.as_f64().map(Scalar::Float)),
        })
    }
    /// A bool.
    pub fn bool(&self, name: &str) -> Result<bool, Error> {
        self.must(name, self.get(name, "a bool", Value::as_bool))
    }
    /// A bool or a default.
    pub fn bool_or(&self, name: &str, default: bool) -> Result<bool, Error> {
        Ok(self.get(name, "a bool", Value::as_bool)?.unwrap_or(default))
    }
    /// A text.
    pub fn text(&self, name: &str) -> Result<&'a str, Error> {
        self.must(name, self.get(name, "a text", Value::as_str))
    }
    /// A text or a default.
    pub fn text_or(&self, name: &str, default: &'a str) -> Result<&'a str, Error> {
        Ok(self.get(name, "a text", Value::as_str)?.unwrap_or(default))
    }
    /// A text, if given.
    pub fn maybe_text(&self, name: &str) -> Result<Option<&'a str>, Error> {
        self.get(name, "a text", Value::as_str)
    }
    /// A list of integers, or one integer as a list of one.
    pub fn ints_or_int(&self, name: &str) -> Result<Vec<i64>, Error> {
        self.must(name, self.maybe_ints(name))
    }
    /// As `ints_or_int`, or a default.
    pub fn ints_or(&self, name: &str, default: &[i64]) -> Result<Vec<i64>, Error> {
        Ok(self.maybe_ints(name)?.unwrap_or_else(|| default.to_vec()))
    }
    /// As `ints_or_int`, if given. (`dim` left out means all axes in many ops.)
    pub fn maybe_ints(&self, name: &str) -> Result<Option<Vec<i64>>, Error> {
        self.get(name, "integers", |v| match v {
            Value::Array(items) => items.iter().map(Value::as_i64).collect(),
            _ => v.as_i64().map(|i| vec![i]),
        })
    }
    /// A list of integers of which some may be null, or one integer.
    pub fn ints_or_null(&self, name: &str) -> Result<Vec<Option<i64>>, Error> {
        self.must(
            name,
            self.get(name, "integers", |v| match v {
                Value::Array(items) => items.iter().map(|v| if v.is_null() { Some(None) } else { v.as_i64().map(Some) }).collect(),
                _ => v.as_i64().map(|i| vec![Some(i)]),
            }),
        )
    }
    /// A list of integers or one integer, as axes or sizes: what `ToSizes` and `Axes` take.
    pub fn sizes(&self, name: &str) -> Result<Vec<isize>, Error> {
        Ok(self.ints_or_int(name)?.into_iter().map(|i| i as isize).collect())
    }
    /// As `sizes`, if given.
    pub fn maybe_sizes(&self, name: &str) -> Result<Option<Vec<isize>>, Error> {
        Ok(self.maybe_ints(name)?.map(|v| v.into_iter().map(|i| i as isize).collect()))
    }
    /// An axis.
    pub fn axis(&self, name: &str) -> Result<isize, Error> {
        Ok(self.int(name)? as isize)
    }
    /// An axis or a default.
    pub fn axis_or(&self, name: &str, default: isize) -> Result<isize, Error> {
        Ok(self.int_or(name, default as i64)? as isize)
    }
    /// A list of numbers, or one number as a list of one; if given.
    pub fn maybe_floats(&self, name: &str) -> Result<Option<Vec<f64>>, Error> {
        self.get(name, "numbers", |v| match v {
            Value::Array(items) => items.iter().map(Value::as_f64).collect(),
            _ => v.as_f64().map(|f| vec![f]),
        })
    }
    /// A dtype by its short name.
    pub fn dtype(&self, name: &str) -> Result<DType, Error> {
        self.text(name)?.parse()
    }
}

/// An error of an argument of the manifest.
#[track_caller]
pub fn argument(what: String) -> Error {
    Error::new("goldens", ErrorKind::Argument(what))
}
/// What the library, or this program's knowledge of it, lacks.
#[track_caller]
pub fn unsupported(what: String) -> Error {
    Error::new("goldens", ErrorKind::Unsupported { backend: "goldens".into(), what })
}
