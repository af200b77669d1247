//! Hashes of graphs: one of everything that a graph computes with, one of its structure, one of a constant's content. They are
//! the same in every process and on every machine, and depend on no numbering, no layer and no name but those of cells.
use super::{Environment, Graph, GraphError, Type, form};
use crate::{Arg, Attr, Scalar, hash::mix};

/// A hash that grows by words and texts.
struct Digest(u64);
impl Digest {
    fn word(&mut self, word: u64) {
        self.0 = mix(self.0, word);
    }
    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }
    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|w| self.word(u64::from_le_bytes(*w)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
    }
    fn ty(&mut self, ty: &Type) {
        self.text(ty.dtype.name());
        self.word(ty.shape.rank() as u64);
        ty.shape.iter().for_each(|&d| self.word(d as u64));
    }
    fn attr(&mut self, attr: &Attr) {
        match attr {
            Attr::Bool(v) => (self.word(1), self.word(u64::from(*v))),
            Attr::Int(v) => (self.word(2), self.word(*v as u64)),
            Attr::Float(v) => (self.word(3), self.word(v.to_bits())),
            Attr::DType(v) => (self.word(4), self.text(v.name())),
            Attr::Text(v) => (self.word(5), self.text(v)),
            Attr::Ints(v) => (self.word(6 + v.len() as u64), v.iter().for_each(|i| self.word(*i as u64))),
        };
    }
    fn arg(&mut self, arg: Arg) {
        match arg {
            Arg::None => self.word(0),
            Arg::Start(start) => (self.word(1), self.word(start as u64)).1,
            Arg::Scalar(s) => {
                let kind = match s {
                    Scalar::Bool(_) => 2,
                    Scalar::Int(_) => 3,
                    Scalar::Float(_) => 4,
                };
                self.word(kind);
                self.word(s.bits());
            }
        }
    }
}
/// The hash of a constant's elements, by which a text refers to them. No hash for adversaries.
pub(super) fn content(bytes: &[u8]) -> u128 {
    let half = |seed: u64| {
        let mut fold = Digest(seed);
        fold.bytes(bytes);
        fold.0
    };
    (half(0xADA) as u128) << 64 | half(0xC0_47E4) as u128
}

impl Graph {
    /// A hash of what the graph computes: ops with attributes and arguments, types, constants by their elements, cells by their
    /// names. A text that is read back has the same one.
    ///
    /// # Errors
    /// The elements of a constant cannot be had.
    pub fn hash(&self, environment: &dyn Environment) -> Result<u64, GraphError> {
        self.folded(true, environment)
    }
    /// A hash of the structure: as [`Graph::hash`] without arguments and without the elements of constants. Graphs that are
    /// equal in it are one plan.
    pub fn structure(&self, environment: &dyn Environment) -> u64 {
        self.folded(false, environment).unwrap_or_default()
    }
    fn folded(&self, whole: bool, environment: &dyn Environment) -> Result<u64, GraphError> {
        let mut fold = Digest(0x6EA9_4000);
        let mut number = vec![u64::MAX; self.values.len()];
        let mut next = 0;
        let mut define = |value: u32| {
            number[value as usize] = next;
            next += 1;
        };
        for &v in &self.inputs {
            define(v);
            fold.ty(&self.values[v as usize]);
        }
        fold.word(0xC0);
        for constant in &self.constants {
            define(constant.value);
            fold.ty(&self.values[constant.value as usize]);
            if whole {
                let bytes = constant.data.bytes().map_err(|why| GraphError::Constant { value: constant.value, why: Box::new(why) })?;
                fold.bytes(&bytes);
            }
        }
        fold.word(0xCE);
        for (k, cell) in self.cells.iter().enumerate() {
            fold.text(&self.cell_name(k));
            fold.ty(&cell.ty);
            fold.word(u64::from(cell.trainable) << 1 | u64::from(cell.read.is_some()));
            if let Some(v) = cell.read {
                define(v);
            }
        }
        let mut context = form::FormContext { home: self.home, groups: Vec::new(), environment };
        for node in &self.nodes {
            let inputs: Vec<Type> = node.inputs.iter().map(|&v| self.values[v as usize]).collect();
            fold.text(node.op.name());
            for (name, attr) in form::attributes(&node.op, &inputs, &mut context) {
                fold.text(name);
                fold.attr(&attr);
            }
            if whole {
                fold.arg(node.arg);
            }
            node.inputs.iter().for_each(|&v| fold.word(number[v as usize]));
            for v in node.outputs.clone() {
                number[v as usize] = next;
                next += 1;
                fold.ty(&self.values[v as usize]);
            }
        }
        context.groups.iter().for_each(|g| fold.word(u64::from(g.size)));
        for write in &self.writes {
            fold.word(u64::from(write.group) << 32 | u64::from(write.cell));
            fold.word(number[write.value as usize]);
        }
        fold.word(0x0E);
        self.outputs.iter().for_each(|&v| fold.word(number[v as usize]));
        Ok(fold.0)
    }
}
