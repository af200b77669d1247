//! Specs of convolutions and windows, shared with the equal ones that the thread used before: what is applied again takes no
//! memory again.
use crate::{
    hash::hash_of,
    op::{ConvSpec, Op, WindowSpec},
    recycle::{Remembered, remembered},
};
use std::{hash::Hash, sync::Arc, thread::LocalKey};

thread_local! {
    static CONVS: Remembered<Arc<ConvSpec>> = Remembered::default();
    static WINDOWS: Remembered<Arc<WindowSpec>> = Remembered::default();
}
/// The spec, or the equal one that the thread used before.
fn shared<T: Hash + Eq>(known: &'static LocalKey<Remembered<Arc<T>>>, spec: T) -> Arc<T> {
    remembered(known, hash_of(&spec), spec, |same, spec| **same == *spec, Arc::new)
}
pub(crate) fn shared_conv(spec: ConvSpec) -> Arc<ConvSpec> {
    shared(&CONVS, spec)
}
/// A convolution.
pub(crate) fn conv_op(spec: ConvSpec) -> Op {
    Op::Conv(shared_conv(spec))
}
/// Sliding windows.
pub(crate) fn window_op(spec: WindowSpec) -> Op {
    Op::Window(shared(&WINDOWS, spec))
}
