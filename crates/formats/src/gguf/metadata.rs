//! The entries of a GGUF file before its tensors: numbers, texts, and arrays of them.
use std::io::{Read, Write};

/// Arrays in arrays, and no deeper.
const MOST_NESTED: u32 = 4;

/// The value of an entry.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "the names are the types'")]
pub enum GgufValue {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Text(String),
    Array(GgufArray),
    U64(u64),
    I64(i64),
    F64(f64),
}
/// An array of values of one type.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "the names are the types'")]
pub enum GgufArray {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    Text(Vec<Box<str>>),
    Array(Vec<GgufArray>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}
impl GgufValue {
    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        if let GgufValue::Text(text) = self { Some(text) } else { None }
    }
    /// The integer, of whichever type, if it is one and not below 0.
    pub fn unsigned(&self) -> Option<u64> {
        match *self {
            GgufValue::U8(v) => Some(v.into()),
            GgufValue::U16(v) => Some(v.into()),
            GgufValue::U32(v) => Some(v.into()),
            GgufValue::U64(v) => Some(v),
            GgufValue::I8(v) => v.try_into().ok(),
            GgufValue::I16(v) => v.try_into().ok(),
            GgufValue::I32(v) => v.try_into().ok(),
            GgufValue::I64(v) => v.try_into().ok(),
            _ => None,
        }
    }
    pub(super) fn write(&self, to: &mut impl Write) -> std::io::Result<()> {
        macro_rules! each {
            ($($number:literal $variant:ident),*) => {
                match self {
                    $(GgufValue::$variant(v) => {
                        to.write_all(&u32::to_le_bytes($number))?;
                        to.write_all(&v.to_le_bytes())
                    })*
                    GgufValue::Bool(v) => {
                        to.write_all(&7u32.to_le_bytes())?;
                        to.write_all(&[u8::from(*v)])
                    }
                    GgufValue::Text(v) => {
                        to.write_all(&8u32.to_le_bytes())?;
                        write_text(to, v)
                    }
                    GgufValue::Array(v) => {
                        to.write_all(&9u32.to_le_bytes())?;
                        v.write(to)
                    }
                }
            };
        }
        each!(0 U8, 1 I8, 2 U16, 3 I16, 4 U32, 5 I32, 6 F32, 10 U64, 11 I64, 12 F64)
    }
}
impl GgufArray {
    fn write(&self, to: &mut impl Write) -> std::io::Result<()> {
        let mut head = |number: u32, count: usize| {
            to.write_all(&number.to_le_bytes())?;
            to.write_all(&(count as u64).to_le_bytes())
        };
        macro_rules! each {
            ($($number:literal $variant:ident),*) => {
                match self {
                    $(GgufArray::$variant(v) => {
                        head($number, v.len())?;
                        v.iter().try_for_each(|v| to.write_all(&v.to_le_bytes()))
                    })*
                    GgufArray::Bool(v) => {
                        head(7, v.len())?;
                        v.iter().try_for_each(|v| to.write_all(&[u8::from(*v)]))
                    }
                    GgufArray::Text(v) => {
                        head(8, v.len())?;
                        v.iter().try_for_each(|v| write_text(to, v))
                    }
                    GgufArray::Array(v) => {
                        head(9, v.len())?;
                        v.iter().try_for_each(|v| v.write(to))
                    }
                }
            };
        }
        each!(0 U8, 1 I8, 2 U16, 3 I16, 4 U32, 5 I32, 6 F32, 10 U64, 11 I64, 12 F64)
    }
}
pub(super) fn write_text(to: &mut impl Write, text: &str) -> std::io::Result<()> {
    to.write_all(&(text.len() as u64).to_le_bytes())?;
    to.write_all(text.as_bytes())
}

/// The bytes of a file, with how many are left.
pub(super) struct GgufSource<R> {
    from: R,
    position: u64,
    len: u64,
}
impl<R: Read> GgufSource<R> {
    pub(super) fn new(from: R, len: u64) -> GgufSource<R> {
        GgufSource { from, position: 0, len }
    }
    pub(super) fn position(&self) -> u64 {
        self.position
    }
    /// Can there be so many things of so many bytes at least?
    pub(super) fn must_fit(&self, count: u64, bytes: u64, what: &str) -> Result<(), String> {
        let left = self.len.saturating_sub(self.position);
        if count.checked_mul(bytes).is_none_or(|all| all > left) {
            return Err(format!("{count} {what} do not fit the {left} bytes that are left"));
        }
        Ok(())
    }
    fn fill(&mut self, out: &mut [u8]) -> Result<(), String> {
        self.from.read_exact(out).map_err(|_| format!("it ends at byte {}, in the middle of what stands there", self.len))?;
        self.position += out.len() as u64;
        Ok(())
    }
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut out = [0; N];
        self.fill(&mut out)?;
        Ok(out)
    }
    pub(super) fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }
    pub(super) fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }
    pub(super) fn text(&mut self) -> Result<String, String> {
        let length = self.u64()?;
        self.must_fit(length, 1, "bytes of a text")?;
        let mut bytes = vec![0; usize::try_from(length).map_err(|e| e.to_string())?];
        self.fill(&mut bytes)?;
        String::from_utf8(bytes).map_err(|e| format!("the text `{}` is no UTF-8", crate::shown(e.as_bytes())))
    }
    fn bool(&mut self) -> Result<bool, String> {
        match self.bytes::<1>()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(format!("{other} is neither true nor false")),
        }
    }
    pub(super) fn value(&mut self) -> Result<GgufValue, String> {
        macro_rules! each {
            ($($number:literal $variant:ident $of:ty),*) => {
                match self.u32()? {
                    $($number => Ok(GgufValue::$variant(<$of>::from_le_bytes(self.bytes()?))),)*
                    7 => self.bool().map(GgufValue::Bool),
                    8 => self.text().map(GgufValue::Text),
                    9 => self.array(1).map(GgufValue::Array),
                    other => Err(format!("values of type {other} are not known")),
                }
            };
        }
        each!(0 U8 u8, 1 I8 i8, 2 U16 u16, 3 I16 i16, 4 U32 u32, 5 I32 i32, 6 F32 f32, 10 U64 u64, 11 I64 i64, 12 F64 f64)
    }
    fn array(&mut self, depth: u32) -> Result<GgufArray, String> {
        if depth > MOST_NESTED {
            return Err(format!("arrays lie in arrays more than {MOST_NESTED} deep"));
        }
        let (kind, count) = (self.u32()?, self.u64()?);
        macro_rules! each {
            ($($number:literal $variant:ident $of:ty),*) => {
                match kind {
                    $($number => {
                        self.must_fit(count, size_of::<$of>() as u64, "elements of an array")?;
                        (0..count).map(|_| Ok(<$of>::from_le_bytes(self.bytes()?))).collect::<Result<_, String>>().map(GgufArray::$variant)
                    })*
                    7 => {
                        self.must_fit(count, 1, "elements of an array")?;
                        (0..count).map(|_| self.bool()).collect::<Result<_, _>>().map(GgufArray::Bool)
                    }
                    8 => {
                        self.must_fit(count, 8, "texts of an array")?;
                        (0..count).map(|_| self.text().map(String::into_boxed_str)).collect::<Result<_, _>>().map(GgufArray::Text)
                    }
                    9 => {
                        self.must_fit(count, 4 + 8, "arrays of an array")?;
                        (0..count).map(|_| self.array(depth + 1)).collect::<Result<_, _>>().map(GgufArray::Array)
                    }
                    other => Err(format!("values of type {other} are not known")),
                }
            };
        }
        each!(0 U8 u8, 1 I8 i8, 2 U16 u16, 3 I16 i16, 4 U32 u32, 5 I32 i32, 6 F32 f32, 10 U64 u64, 11 I64 i64, 12 F64 f64)
    }
}
