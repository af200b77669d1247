//! Specs of convolutions and windows, shared with the equal ones that the thread used before: what is applied again takes no
//! memory again.
use super::{ConvSpec, Op, WindowSpec, hash_of};
use crate::recycle::{Remembered, remembered};
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
impl Op {
    pub(crate) fn conv(spec: ConvSpec) -> Op {
        Op::Conv(shared_conv(spec))
    }
    pub(crate) fn window(spec: WindowSpec) -> Op {
        Op::Window(shared(&WINDOWS, spec))
    }
}
