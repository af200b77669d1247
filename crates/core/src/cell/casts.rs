//! Casts of cells' values that are made once: in mixed precision a weight is cast wherever it is used, in several layers, for each small
//! batch of a step, with gradients and without.
//!
//! Data flow: inside [`casting_once`] each read of a cell notes which value it gave; [`cast_once`] finds the cell of a value by that, and
//! gives the one cast of it, without a gradient of its own, at a new place on the tape that leads to the tensor it was asked for. A note is
//! good while the cell holds the value, so no value can have come to lie where that one lay. The cast stays with the cell until that is
//! written: the next pass finds it, and another thread once it was computed. In a capture it is a part of what is captured.
use super::Cell;
use crate::{DType, Tensor, grad, intercept, record::context, value::Value};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::{
    cell::{Cell as Flag, RefCell},
    collections::HashMap,
    sync::atomic::{
        AtomicBool,
        Ordering::{AcqRel, Acquire},
    },
};

/// A value of a cell.
struct NotedValue {
    cell: Cell,
    /// how often the cell's value had changed
    moves: u64,
    /// its casts in a capture; none: it is what the cell holds, which has them
    captured: Option<SmallVec<[HeldCast; 1]>>,
}
/// The most casts that a cell has.
const MOST_CASTS: usize = 4;
/// The casts of what a cell holds.
#[derive(Default)]
pub(super) struct HeldCasts {
    all: Mutex<SmallVec<[HeldCast; 1]>>,
    /// there may be some
    any: AtomicBool,
}
impl HeldCasts {
    /// Lets go of them. A cast that is held is no recipe: to drop it is to give memory back, which may be done under any lock.
    #[inline]
    pub fn clear(&self) {
        if self.any.load(Acquire) {
            self.all.lock().clear();
        }
    }
    fn find(&self, key: (u64, DType, u64)) -> Option<Tensor> {
        self.all.lock().iter().find_map(|c| c.found(key))
    }
}
/// A cast of a cell's value.
pub(super) struct HeldCast {
    /// of the value that it held when it had changed so often
    moves: u64,
    dtype: DType,
    /// the interceptors that acted on it
    around: u64,
    cast: Tensor,
}
impl HeldCast {
    /// It, if it is what is asked for. What another thread has recorded and nobody has computed yet is that thread's.
    fn found(&self, (moves, dtype, around): (u64, DType, u64)) -> Option<Tensor> {
        let value = self.cast.value();
        let is_it = self.moves == moves && self.dtype == dtype && self.around == around;
        let is_ours = || self.cast.error().is_none() && (value.stored().is_some() || context(|c| c.stream(self.cast.meta().device).id) == value.home);
        (is_it && is_ours()).then(|| self.cast.clone())
    }
}
thread_local! {
    static ACTIVE: Flag<bool> = const { Flag::new(false) };
    /// by the address of the value
    static NOTED: RefCell<HashMap<usize, NotedValue>> = RefCell::new(HashMap::new());
}
/// Runs `f`; inside, [`cast_once`] casts what a cell holds once. A cast is kept until the cell is written, or [forgets](Cell::forget_casts) it:
/// 2 bytes for each weight that is cast to 16 bits.
pub fn casting_once<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            ACTIVE.set(self.0);
            if !self.0 {
                // Tensors go while nothing is borrowed.
                drop(NOTED.take());
            }
        }
    }
    let _restore = Restore(ACTIVE.replace(true));
    f()
}
/// What was noted, put aside while code runs that sees cells otherwise.
pub(super) struct CastsAside(HashMap<usize, NotedValue>);
impl CastsAside {
    pub fn new() -> CastsAside {
        CastsAside(NOTED.try_with(RefCell::take).unwrap_or_default())
    }
}
impl Drop for CastsAside {
    fn drop(&mut self) {
        let before = std::mem::take(&mut self.0);
        // A thread that ends has none.
        drop(NOTED.try_with(|noted| noted.replace(before)));
    }
}
/// Does a read have to be noted?
#[inline]
pub(super) fn is_active() -> bool {
    ACTIVE.with(Flag::get)
}
/// Where a tensor's value is kept: at no other one's address while both live.
fn address(x: &Tensor) -> usize {
    std::ptr::from_ref::<Value>(x.value()) as usize
}
/// Notes that a cell gave a value when it had changed `moves` times, in a capture or as what it holds.
#[cold]
pub(super) fn note(cell: &Cell, moves: u64, given: &Tensor, is_captured: bool) {
    let address = address(given);
    let gone = NOTED.with_borrow_mut(|noted| match noted.get(&address) {
        Some(n) if n.cell.id() == cell.id() && n.moves == moves && n.captured.is_some() == is_captured => None,
        _ => noted.insert(address, NotedValue { cell: cell.clone(), moves, captured: is_captured.then(SmallVec::new) }),
    });
    drop(gone);
}
impl Cell {
    /// Lets go of the casts of its value that [`casting_once`] left with it: of a model that has answered in 16
    /// bits and will not do so soon, half as many bytes as its f32 weights have. Whoever wants one again casts again.
    ///
    /// ```
    /// # use adamant_core::{Cell, DType, Device, Tensor, intercept::{cast_once, casting_once}};
    /// # let device = Device::reference();
    /// # device.make_current();
    /// let weight = Cell::new(&Tensor::ones([1 << 16]), false)?;
    /// casting_once(|| cast_once(&weight.get(), DType::BF16).materialize())?;
    /// let before = device.memory().live_bytes;
    /// weight.forget_casts();
    /// assert_eq!(before - device.memory().live_bytes, 2 << 16);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    pub fn forget_casts(&self) {
        self.0.casts.clear();
    }
    /// Keeps a cast of what it held after so many changes, if there were no more since; of too many the oldest goes, and one that is asked for
    /// anew: it failed, or another thread has yet to compute it.
    fn keep_cast(&self, held: HeldCast) {
        let mut casts = self.0.casts.all.lock();
        self.0.casts.any.swap(true, AcqRel);
        casts.retain(|c| (c.dtype, c.around) != (held.dtype, held.around));
        if casts.len() >= MOST_CASTS {
            casts.remove(0);
        }
        // Who changes it after this sees that there are casts.
        if self.moves() == held.moves {
            casts.push(held);
        }
    }
}
/// `x.cast(dtype)`; inside of [`casting_once`] the value of a cell is cast once, whoever asks. Gradients flow to `x` as through a cast of its own.
///
/// ```
/// # use adamant_core::{Cell, DType, Device, Tensor, intercept::{cast_once, casting_once}};
/// # Device::reference().make_current();
/// let weight = Cell::new(&Tensor::from_vec(vec![1.0f32, 2.0], [2]), true)?;
/// casting_once(|| {
///     let low = cast_once(&weight.get(), DType::BF16);
///     let loss = (low * cast_once(&weight.get(), DType::BF16)).sum(..);
///     assert_eq!(loss.backward()?.of(&weight).unwrap().to_vec::<f32>()?, [2.0, 4.0]);
///     weight.set(&Tensor::zeros([2]))?;
///     assert_eq!(cast_once(&weight.get(), DType::BF16).to_vec_as::<f32>()?, [0.0, 0.0]);
///     Ok::<_, adamant_core::Error>(())
/// })
/// # ?; Ok::<(), adamant_core::Error>(())
/// ```
#[track_caller]
pub fn cast_once(x: &Tensor, dtype: DType) -> Tensor {
    if !is_active() || x.error().is_some() || x.meta().dtype == dtype || crate::transform::any() {
        return x.cast(dtype);
    }
    let (address, around) = (address(x), intercept::identity());
    // The cell whose value it is, where it holds that still, and the cast if there is one.
    let known = NOTED.with_borrow(|noted| {
        let n = noted.get(&address).filter(|n| n.moves == n.cell.moves())?;
        let cast = match &n.captured {
            Some(casts) => casts.iter().find_map(|c| c.found((n.moves, dtype, around))),
            None => n.cell.0.casts.find((n.moves, dtype, around)),
        };
        Some((n.cell.clone(), n.moves, cast))
    });
    let Some((cell, moves, cast)) = known else { return x.cast(dtype) };
    let cast = cast.unwrap_or_else(|| {
        let cast = grad::no_grad(|| Tensor::from_value(x.value().clone()).cast(dtype));
        let held = HeldCast { moves, dtype, around, cast: cast.clone() };
        let left = NOTED.with_borrow_mut(|noted| match noted.get_mut(&address).map(|n| &mut n.captured) {
            Some(Some(casts)) => {
                casts.push(held);
                None
            }
            _ => Some(held),
        });
        left.into_iter().for_each(|held| cell.keep_cast(held));
        cast
    });
    grad::as_cast_of(x, cast)
}
