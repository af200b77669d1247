//! Several slices read and written element by element, side by side: what a program compiled ahead runs over. An output
//! may be the memory of an input: all that is read at a place is read before anything is written there.
//!
//! Must not know what is computed.
use super::{Float, Simd};
use smallvec::SmallVec;
use std::marker::PhantomData;

/// The widest vector of f32.
const WIDEST: usize = 16;

#[derive(Clone, Copy)]
enum Source {
    Slice(*const f32),
    Splat(f32),
    Output(usize),
}
/// What a loop reads and writes, `n` elements each.
pub(crate) struct Streams<'a> {
    n: usize,
    sources: SmallVec<[Source; 8]>,
    outputs: SmallVec<[*mut f32; 4]>,
    slices: PhantomData<&'a mut [f32]>,
}
impl<'a> Streams<'a> {
    /// Streams of `n` elements.
    pub fn new(n: usize) -> Streams<'a> {
        Streams { n, sources: SmallVec::new(), outputs: SmallVec::new(), slices: PhantomData }
    }
    /// The next output.
    pub fn write(&mut self, out: &'a mut [f32]) {
        assert!(out.len() >= self.n);
        self.outputs.push(out.as_mut_ptr());
    }
    /// The next input.
    pub fn read(&mut self, x: &'a [f32]) {
        assert!(x.len() >= self.n);
        self.sources.push(Source::Slice(x.as_ptr()));
    }
    /// The next input is one number for all elements.
    pub fn repeat(&mut self, x: f32) {
        self.sources.push(Source::Splat(x));
    }
    /// The next input is what output `o` holds before it is written.
    pub fn read_output(&mut self, o: usize) {
        self.sources.push(Source::Output(o));
    }
    /// `outputs[..][i] = f(inputs[..][i])` for every i. False, and nothing is done: there are other numbers of them.
    #[inline(always)]
    pub fn each<S: Simd, const X: usize, const O: usize>(self, f: impl Fn([S::F32; X]) -> [S::F32; O]) -> bool {
        let known = |s: &Source| !matches!(s, Source::Output(o) if *o >= O);
        if self.sources.len() != X || self.outputs.len() != O || !self.sources.iter().all(known) {
            return false;
        }
        // A number is read again and again from a vector of its own: its place does not move on.
        let mut repeated = [[0f32; WIDEST]; X];
        let mut from: [(*const f32, usize); X] = [(std::ptr::null(), 0); X];
        for k in 0..X {
            from[k] = match self.sources[k] {
                Source::Slice(at) => (at, usize::MAX),
                Source::Output(o) => (self.outputs[o].cast_const(), usize::MAX),
                Source::Splat(v) => {
                    repeated[k] = [v; WIDEST];
                    (repeated[k].as_ptr(), 0)
                }
            };
        }
        let mut to = [std::ptr::null_mut::<f32>(); O];
        to.copy_from_slice(&self.outputs);
        let zero = S::F32::constant(0.0);
        let mut i = 0;
        while i + S::F32::LANES <= self.n {
            let mut x = [zero; X];
            for k in 0..X {
                // SAFETY: every slice has n elements, of which a whole vector lies behind i, and a repeated number a vector of its own.
                x[k] = unsafe { S::F32::load(from[k].0.add(i & from[k].1)) };
            }
            let y = f(x);
            for k in 0..O {
                // SAFETY: as above; outputs are borrowed for writing, and inputs that share their memory have been read at i.
                unsafe { y[k].store(to[k].add(i)) };
            }
            i += S::F32::LANES;
        }
        if i < self.n {
            let rest = self.n - i;
            let mut x = [zero; X];
            for k in 0..X {
                // SAFETY: as above, for the rest of the elements.
                x[k] = unsafe { S::F32::load_first(from[k].0.add(i & from[k].1), rest) };
            }
            let y = f(x);
            for k in 0..O {
                // SAFETY: as above.
                unsafe { y[k].store_first(to[k].add(i), rest) };
            }
        }
        true
    }
}
