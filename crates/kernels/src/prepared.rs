//! What a kernel has become on a device: the texts that were compiled for it, by structure, and the forms of its nests. Every
//! device that compiles texts keeps these, and keeps them alike: only what a compiled text is differs.
//!
//! Must not know: how a text is compiled, or what becomes of a device that is lost; its texts are told apart by `is_good`.
use crate::{Bindings, Form, Key, Nest, Strides};
use adamant_ir::{Shape, kernel::KernelKind};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

/// The forms of nests that texts of a device were written for, by a hash of the computation, the place of the nest in it, how
/// the buffers are bound and how many axes there are.
#[derive(Default)]
pub struct Forms(Mutex<HashMap<u64, Vec<Form>>>);

/// What a kernel became so far; `T` is a compiled text.
pub struct Prepared<T> {
    /// a hash of what it computes: kernels of other plans that compute the same have it too
    computes: u64,
    /// by structure
    texts: Mutex<Vec<(Key, Arc<T>)>>,
    /// the forms that its nests would have by themselves, by their places, with those that they have
    nests: Mutex<Vec<(u8, Form, Form)>>,
}
impl<T> Prepared<T> {
    /// Nothing yet.
    pub fn new(kernel: &KernelKind) -> Prepared<T> {
        let mut hasher = DefaultHasher::new();
        format!("{kernel:?}").hash(&mut hasher);
        Prepared { computes: hasher.finish(), texts: Mutex::default(), nests: Mutex::default() }
    }
    /// The text for a structure, if it is there. One that an earlier generation of the device has compiled is lost with it.
    pub fn text(&self, key: &Key, is_good: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        self.texts.lock().iter().find(|(k, t)| k == key && is_good(t)).map(|(_, found)| found.clone())
    }
    /// Keeps the text for a structure.
    pub fn keep(&self, key: &Key, text: Arc<T>) {
        self.texts.lock().push((key.clone(), text));
    }
    /// What follows `beginning` in the keys of the texts that it has: forms that it was given for other sizes.
    pub fn known(&self, beginning: &[u8], is_good: impl Fn(&T) -> bool) -> Vec<Key> {
        self.texts.lock().iter().filter(|(_, t)| is_good(t)).filter_map(|(k, _)| k.strip_prefix(beginning).map(Key::from_slice)).collect()
    }
    /// Has nothing been compiled for it yet?
    pub fn is_new(&self, is_good: impl Fn(&T) -> bool) -> bool {
        !self.texts.lock().iter().any(|(_, t)| is_good(t))
    }
    /// The nest of a launch; `place` tells its nests apart. Axes of one element may be left out of a text or be in it: a nest
    /// that has some takes a form that a text was written for, where one fits, so that a batch of one row compiles nothing.
    pub fn nest(&self, forms: &Forms, place: u8, bindings: &Bindings, space: &Shape, [outer, inner]: [&[usize]; 2], operands: &[(usize, Strides)]) -> Nest {
        let own = Nest::new(space, outer, inner, operands);
        let form = own.form();
        let mut nests = self.nests.lock();
        let chosen = match nests.iter().find(|(at, natural, _)| *at == place && *natural == form) {
            Some((_, _, chosen)) => chosen.clone(),
            None => {
                let mut hasher = DefaultHasher::new();
                (self.computes, place, space.rank()).hash(&mut hasher);
                bindings.access.iter().for_each(|a| (*a as u8).hash(&mut hasher));
                let mut all = forms.0.lock();
                let known = all.entry(hasher.finish()).or_default();
                let has_ones = outer.iter().chain(inner).any(|&a| space[a] == 1);
                let fits = |f: &&Form| Nest::of(f, space, [outer, inner], operands).is_some();
                let like = || known.iter().filter(fits).max_by_key(|f| f.likeness(&form)).cloned();
                let chosen = if has_ones && !known.contains(&form) { like() } else { None }.unwrap_or_else(|| form.clone());
                if !known.contains(&chosen) {
                    known.push(chosen.clone());
                }
                nests.push((place, form.clone(), chosen.clone()));
                chosen
            }
        };
        // Of one form there are many sizes, and what fitted one of them need not fit another.
        if chosen == form { own } else { Nest::of(&chosen, space, [outer, inner], operands).unwrap_or(own) }
    }
}
