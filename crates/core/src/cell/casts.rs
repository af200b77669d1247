//! Casts of cells' values that are made once: in mixed precision a weight is cast wherever it is used, in several layers, for each small
//! batch of a step, with gradients and without.
//!
//! Data flow: inside [`casting_once`] each read of a cell notes which value it gave; [`cast_once`] finds the cell of a value by that, and
//! gives the one cast of it, without a gradient of its own, at a new place on the tape that leads to the tensor it was asked for. A note is
//! good while the cell holds the value, so no value can have come to lie where that one lay.
use super::Cell;
use crate::{DType, Tensor, grad, intercept, value::Value};
use smallvec::SmallVec;
use std::{
    cell::{Cell as Flag, RefCell},
    collections::HashMap,
};

/// A value of a cell, and its casts.
struct NotedValue {
    cell: Cell,
    /// how often the cell's value had changed
    moves: u64,
    /// by the dtype, and the interceptors that acted on the cast
    casts: SmallVec<[(DType, u64, Tensor); 1]>,
}
thread_local! {
    static ACTIVE: Flag<bool> = const { Flag::new(false) };
    /// by the address of the value
    static NOTED: RefCell<HashMap<usize, NotedValue>> = RefCell::new(HashMap::new());
}
/// Runs `f`; inside, [`cast_once`] casts what a cell holds once. Casts are kept until the outermost call ends: 2 bytes for each weight
/// that is cast to 16 bits.
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
/// Notes that a cell gave a value when it had changed `moves` times.
#[cold]
pub(super) fn note(cell: &Cell, moves: u64, given: &Tensor) {
    let address = address(given);
    let gone = NOTED.with_borrow_mut(|noted| match noted.get(&address) {
        Some(n) if n.cell.id() == cell.id() && n.moves == moves => None,
        _ => noted.insert(address, NotedValue { cell: cell.clone(), moves, casts: SmallVec::new() }),
    });
    drop(gone);
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
    let known = NOTED.with_borrow(|noted| {
        let n = noted.get(&address).filter(|n| n.moves == n.cell.moves())?;
        Some(n.casts.iter().find(|(d, a, _)| *d == dtype && *a == around).map(|(.., cast)| cast.clone()))
    });
    let cast = match known {
        // No value of a cell.
        None => return x.cast(dtype),
        Some(Some(cast)) => cast,
        Some(None) => {
            let cast = grad::no_grad(|| Tensor::from_value(x.value().clone()).cast(dtype));
            NOTED.with_borrow_mut(|noted| noted.get_mut(&address).map(|n| n.casts.push((dtype, around, cast.clone()))));
            cast
        }
    };
    grad::as_cast_of(x, cast)
}
