//! Cells whose value is elsewhere: a parameter of which each rank holds a piece.
//!
//! ```text
//! Cell::give_up(source):  read  -> CellSource::read -> a value that is made for this read       (on the tape as the cell's leaf)
//!                         write -> CellSource::write
//! walk back: what a rule saved of such a read is not kept; where the rule asks for it, it is read once more
//! ```
//!
//! So a value that is put together for each use lies in memory from there to the last reader of that use, and nowhere between the
//! forward pass and the walk back.
use super::Cell;
use crate::{
    Arg, Error, Meta, Op, Result, Tensor,
    grad::{Parent, Tape, TapeKind, with_grad},
    recycle::Shared,
    value::Value,
};
use parking_lot::RwLock;
use smallvec::SmallVec;
use std::{
    collections::HashMap,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

/// Who has the value of a cell, where the cell has not. See [`Cell::give_up`].
pub trait CellSource: Send + Sync {
    /// The value, of the cell's shape, dtype and device: asked at each read, also at those of a walk back.
    ///
    /// # Errors
    /// Whatever keeps it from being had.
    fn read(&self, cell: &Cell) -> Result<Tensor>;
    /// Takes a value that is written to the cell.
    ///
    /// # Errors
    /// Whatever keeps it from being taken; then nothing has changed.
    fn write(&self, cell: &Cell, value: &Tensor) -> Result<()>;
}

/// What a cell knows of it.
#[derive(Default)]
pub(super) struct HeldSource {
    is_there: AtomicBool,
    source: RwLock<Option<Arc<dyn CellSource>>>,
}
/// The cells without a value of their own, by the numbers of their leaves.
static SOURCED: LazyLock<RwLock<HashMap<u64, Cell>>> = LazyLock::new(Default::default);
static COUNT: AtomicUsize = AtomicUsize::new(0);

impl Cell {
    /// Gives up its value, and the memory that it lies in: from now on a read asks the source, and what is written goes there. Gradients
    /// flow to the cell as before. What rules of gradients save of a read is not kept until the walk back, but read again there.
    /// Outside of steps and captures.
    ///
    /// ```
    /// # use adamant_core::{Cell, CellSource, Result, Tensor};
    /// # use std::sync::Arc;
    /// # adamant_core::Device::reference().make_current();
    /// struct Halves(Cell, Cell);
    /// impl CellSource for Halves {
    ///     fn read(&self, _: &Cell) -> Result<Tensor> {
    ///         Tensor::cat(&[&self.0.detached(), &self.1.detached()], 0).ok()
    ///     }
    ///     fn write(&self, _: &Cell, value: &Tensor) -> Result<()> {
    ///         self.0.set(&value.narrow(0, 0, 1))?;
    ///         self.1.set(&value.narrow(0, 1, 1))
    ///     }
    /// }
    /// let half = |v: f32| Cell::new(&Tensor::from_vec(vec![v], [1]), false);
    /// let weight = Cell::new(&Tensor::from_vec(vec![1.0f32, 2.0], [2]), true)?;
    /// weight.give_up(Arc::new(Halves(half(3.0)?, half(4.0)?)))?;
    /// let grads = weight.get().square().sum(..).backward()?;
    /// assert_eq!(grads.of(&weight).unwrap().to_vec::<f32>()?, [6.0, 8.0]);
    /// weight.take_back()?;
    /// assert_eq!(weight.detached().to_vec::<f32>()?, [3.0, 4.0]);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// An open step, a captured function, a snapshot: there the value of now is not the cell's alone.
    #[track_caller]
    pub fn give_up(&self, source: Arc<dyn CellSource>) -> Result<()> {
        self.must_be_alone("give_up")?;
        if let Some(leaf) = self.leaf() {
            let mut sourced = SOURCED.write();
            sourced.insert(leaf.number(), self.clone());
            COUNT.store(sourced.len(), Relaxed);
        }
        *self.0.source.source.write() = Some(source);
        self.0.source.is_there.store(true, Relaxed);
        // Nobody reads it: an error that says so costs no memory.
        let told = Error::new("cell read", crate::ErrorKind::Internal("the value of this cell lies elsewhere".into()));
        self.hold(Tensor::failed(told).value().clone());
        Ok(())
    }
    /// Reads the value once more and holds it from now on, as a cell of its own. Does nothing where it does.
    ///
    /// # Errors
    /// Those of the source's read; an open step, a captured function, a snapshot.
    #[track_caller]
    pub fn take_back(&self) -> Result<()> {
        let Some(source) = self.source() else { return Ok(()) };
        self.must_be_alone("take_back")?;
        let value = self.sourced(&*source).ok()?;
        value.materialize()?;
        self.hold(value.value().clone());
        self.0.source.is_there.store(false, Relaxed);
        *self.0.source.source.write() = None;
        if let Some(leaf) = self.leaf() {
            let mut sourced = SOURCED.write();
            sourced.remove(&leaf.number());
            COUNT.store(sourced.len(), Relaxed);
        }
        Ok(())
    }
    /// Who has the value, if the cell has not.
    pub(super) fn source(&self) -> Option<Arc<dyn CellSource>> {
        if !self.0.source.is_there.load(Relaxed) {
            return None;
        }
        self.0.source.source.read().clone()
    }
    /// Does its value lie elsewhere?
    pub fn is_given_up(&self) -> bool {
        self.0.source.is_there.load(Relaxed)
    }
    pub(super) fn sourced(&self, source: &dyn CellSource) -> Tensor {
        super::overlay::note(self);
        let read = || -> Result<Tensor> {
            let value = with_grad(false, || source.read(self))?.detach().ok()?;
            let (Meta { shape, dtype, device }, want) = (value.meta(), self.meta());
            if (shape, dtype, device) != (want.shape, want.dtype, want.device) {
                let told = format!("a source gives {dtype} {shape} on {device} to a cell of {} {} on {}", want.dtype, want.shape, want.device);
                return Err(Error::new("cell read", crate::ErrorKind::Internal(told)));
            }
            Ok(value)
        };
        read().unwrap_or_else(Tensor::failed)
    }
    #[track_caller]
    fn must_be_alone(&self, called: &'static str) -> Result<()> {
        if super::is_apart() || crate::transform::any() || crate::is_capturing() {
            return Err(Error::new(
                called,
                crate::ErrorKind::Argument("the value of a cell changes its place outside of steps, captures and transforms".into()),
            ));
        }
        Ok(())
    }
    /// Holds this value, for which nothing is to be run.
    fn hold(&self, value: Shared<Value>) {
        let _before = {
            let mut state = self.0.state.lock();
            self.moved();
            std::mem::replace(&mut state.value, value)
        };
        self.committed();
    }
}

/// How a value that a rule saved is had again: the cell, and what was done to the read.
pub(crate) struct SavedReading {
    cell: Cell,
    ops: SmallVec<[(Op, Arg); 2]>,
}
impl SavedReading {
    /// The value, read again.
    pub fn again(&self) -> Tensor {
        with_grad(false, || self.ops.iter().fold(self.cell.detached(), |x, (op, arg)| Tensor::apply(op.clone(), *arg, &[&x])))
    }
}
/// What a tensor is of a cell that has given its value up: it itself, a view or a cast of it.
#[inline]
pub(crate) fn reading_of(x: &Tensor) -> Option<SavedReading> {
    if COUNT.load(Relaxed) == 0 { None } else { found(x.tape()?) }
}
#[cold]
fn found((node, _): &(Shared<Tape>, u8)) -> Option<SavedReading> {
    let cell = |leaf: u64| SOURCED.read().get(&leaf).cloned();
    let (mut ops, mut node) = (SmallVec::<[(Op, Arg); 2]>::new(), node);
    loop {
        let parent = match node.kind() {
            TapeKind::Leaf => return Some(SavedReading { cell: cell(node.number())?, ops }),
            TapeKind::Op(op @ (Op::View(_) | Op::Cast(_)), arg) => {
                ops.insert(0, (op.clone(), *arg));
                node.parents().first()?
            }
            _ => return None,
        };
        match parent {
            Parent::Leaf(id) => return Some(SavedReading { cell: cell(*id)?, ops }),
            Parent::Node(before, _) => node = before,
            Parent::None => return None,
        }
    }
}
