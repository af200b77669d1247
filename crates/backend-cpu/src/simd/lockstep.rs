//! Several slices read and written element by element, side by side: what a program compiled ahead of time runs over. An output
//! may be the memory of an input: all that is read at a place is read before anything is written there.
//!
//! Must not know what is computed.
use super::{
    Arithmetic, Float, Simd,
    stream::{self, LINE},
    twice::Twice,
};
use smallvec::SmallVec;
use std::marker::PhantomData;

/// The widest vector of f32.
const WIDEST: usize = 16;

#[derive(Clone, Copy)]
enum Source {
    Slice(*const f32),
    GoingOn(*const f32),
    Splat(f32),
    Output(usize),
}
/// What a loop reads and writes, `n` elements each.
pub(crate) struct LoopStreams<'a> {
    n: usize,
    sources: SmallVec<[Source; 8]>,
    /// an optimizer's step has six
    numbers: SmallVec<[f32; 8]>,
    outputs: SmallVec<[*mut f32; 4]>,
    past: bool,
    slices: PhantomData<&'a mut [f32]>,
}
impl<'a> LoopStreams<'a> {
    /// Streams of `n` elements.
    pub fn new(n: usize) -> LoopStreams<'a> {
        LoopStreams { n, sources: SmallVec::new(), numbers: SmallVec::new(), outputs: SmallVec::new(), past: false, slices: PhantomData }
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
    /// The next input, behind which lies what the next streams will read.
    pub fn read_on(&mut self, x: &'a [f32]) {
        assert!(x.len() >= self.n);
        self.sources.push(Source::GoingOn(x.as_ptr()));
    }
    /// Outputs are written by non-temporal stores, and inputs that go on are asked for ahead of their use: a program that
    /// computes much then waits for neither. [`stream::publish`] comes before anybody else may read them.
    pub fn past_caches(&mut self) {
        self.past = true;
    }
    /// The next number of the program.
    pub fn number(&mut self, x: f32) {
        self.numbers.push(x);
    }
    /// The next input is one number for all elements.
    pub fn repeat(&mut self, x: f32) {
        self.sources.push(Source::Splat(x));
    }
    /// The next input is what output `o` holds before it is written.
    pub fn read_output(&mut self, o: usize) {
        self.sources.push(Source::Output(o));
    }
    /// Where inputs and outputs begin, and which bits of a place are an input's: none of a number that is repeated. False: there
    /// are not so many of them. Compiled once for all loops.
    #[inline(never)]
    fn places(&self, from: &mut [(*const f32, usize)], to: &mut [*mut f32], repeated: &mut [[f32; WIDEST]], going_on: &mut SmallVec<[*const f32; 4]>) -> bool {
        let known = |s: &Source| !matches!(s, Source::Output(o) if *o >= to.len());
        if self.sources.len() != from.len() || self.outputs.len() != to.len() || !self.sources.iter().all(known) {
            return false;
        }
        for ((source, from), repeated) in self.sources.iter().zip(from).zip(repeated) {
            *from = match *source {
                Source::Slice(at) => (at, usize::MAX),
                Source::GoingOn(at) => {
                    going_on.push(at);
                    (at, usize::MAX)
                }
                Source::Output(o) => (self.outputs[o].cast_const(), usize::MAX),
                Source::Splat(v) => {
                    *repeated = [v; WIDEST];
                    (repeated.as_ptr(), 0)
                }
            };
        }
        to.copy_from_slice(&self.outputs);
        true
    }
    /// Non-temporal stores write whole lines: what lies before the first goes first, if it is as much of each.
    #[inline(never)]
    fn head(&self, to: &[*mut f32]) -> Option<usize> {
        let before = |to: *mut f32| (to.addr().wrapping_neg() % LINE) / size_of::<f32>();
        let head = to.first().map_or(0, |to| before(*to));
        to.iter().all(|&to| to.is_aligned() && before(to) == head).then_some(head)
    }
    /// `outputs[..][i] = f(inputs[..][i], numbers)` for every i. False, and nothing is done: there are not so many of them.
    /// Where `f` is `LONG`, one copy of it serves whole vectors and parts of them.
    #[inline(always)]
    pub fn each<S: Simd, const X: usize, const C: usize, const O: usize, const LONG: bool>(
        &self,
        f: impl Fn([Twice<S::F32>; X], [Twice<S::F32>; C]) -> [Twice<S::F32>; O],
    ) -> bool {
        // An input that is one number is read again and again from a vector of its own: its place does not move on.
        let mut repeated = [[0f32; WIDEST]; X];
        let mut from: [(*const f32, usize); X] = [(std::ptr::null(), 0); X];
        let mut to = [std::ptr::null_mut::<f32>(); O];
        let mut going_on: SmallVec<[*const f32; 4]> = SmallVec::new();
        if self.numbers.len() != C || !self.places(&mut from, &mut to, &mut repeated, &mut going_on) {
            return false;
        }
        let mut numbers = [Twice::<S::F32>::constant(0.0); C];
        for k in 0..C {
            numbers[k] = Twice::splat(self.numbers[k]);
        }
        let zero = Twice::<S::F32>::constant(0.0);
        let lanes = S::F32::LANES;
        let head = if self.past && lanes > 1 { self.head(&to) } else { None };
        let (past, head) = (head.is_some(), head.unwrap_or(0));
        let pairs = VectorPairs { from, to, numbers, going_on: &going_on };
        if LONG {
            // SAFETY: every slice has n elements, and a repeated number a vector of its own. Outputs are borrowed for writing.
            // With non-temporal stores a line begins at the head, which is less than two vectors.
            unsafe { pairs.all(if past { head.min(self.n) } else { 0 }, self.n, past, f) };
            return true;
        }
        let mut i = 0;
        let mut few = if past { head.min(self.n) } else { 0 };
        loop {
            if few == 0 {
                // SAFETY: every slice has n elements, and a repeated number a vector of its own. Outputs are borrowed for writing.
                // With non-temporal stores a line begins at the head.
                i = unsafe { if past { pairs.run::<true>(i, self.n, &f) } else { pairs.run::<false>(i, self.n, &f) } };
            }
            // Behind the last two vectors.
            let count = if few > 0 { few } else { self.n - i };
            if count == 0 {
                break;
            }
            few = 0;
            let (first, second) = (lanes.min(count), count.saturating_sub(lanes));
            let mut x = [zero; X];
            for k in 0..X {
                // SAFETY: as above, for fewer elements than two vectors have; of none, nothing is read.
                x[k] = unsafe {
                    Twice(S::F32::load_first(from[k].0.add(i & from[k].1), first), S::F32::load_first(from[k].0.add((i + first) & from[k].1), second))
                };
            }
            let y = f(x, numbers);
            for k in 0..O {
                // SAFETY: as above.
                unsafe {
                    y[k].0.store_first(to[k].add(i), first);
                    y[k].1.store_first(to[k].add(i + first), second);
                }
            }
            i += count;
        }
        true
    }
}
/// What [`LoopStreams::each`] takes two vectors of at a time.
struct VectorPairs<'a, V: Arithmetic, const X: usize, const C: usize, const O: usize> {
    /// where inputs begin, and which bits of a place are theirs: none of a number that is repeated
    from: [(*const f32, usize); X],
    to: [*mut f32; O],
    numbers: [Twice<V>; C],
    going_on: &'a [*const f32],
}
impl<V: Float<Elem = f32>, const X: usize, const C: usize, const O: usize> VectorPairs<'_, V, X, C, O> {
    /// From `i` on, as many as end before `n`; returns where it ends. `PAST` the caches or not is known to the compiler: all
    /// addresses then fit into registers.
    ///
    /// # Safety
    /// `n` elements can be read and written, but for inputs without bits, of which a vector can be read. With non-temporal stores
    /// outputs at `i` are multiples of a vector's size.
    #[inline(always)]
    unsafe fn run<const PAST: bool>(&self, mut i: usize, n: usize, f: &impl Fn([Twice<V>; X], [Twice<V>; C]) -> [Twice<V>; O]) -> usize {
        let VectorPairs { from, to, numbers, going_on } = *self;
        let lanes = V::LANES;
        while i + 2 * lanes <= n {
            let mut x = [Twice::<V>::constant(0.0); X];
            for k in 0..X {
                // SAFETY: the caller's promise; two vectors lie behind i.
                x[k] = unsafe { Twice(V::load(from[k].0.add(i & from[k].1)), V::load(from[k].0.add((i + lanes) & from[k].1))) };
            }
            let y = f(x, numbers);
            if PAST {
                for at in going_on {
                    for line in (0..2 * lanes).step_by(WIDEST) {
                        stream::hint_ahead(at.wrapping_add(i + line));
                    }
                }
            }
            for k in 0..O {
                // SAFETY: as above; inputs that share an output's memory have been read at i.
                unsafe {
                    let (first, second) = (to[k].add(i), to[k].add(i + lanes));
                    if PAST {
                        y[k].0.store_past(first);
                        y[k].1.store_past(second);
                    } else {
                        y[k].0.store(first);
                        y[k].1.store(second);
                    }
                }
            }
            i += 2 * lanes;
        }
        i
    }
    /// All `n`, the first `head` of them apart, by one copy of `f`: it is long, so that what decides here how much is read and
    /// written is little beside it.
    ///
    /// # Safety
    /// `n` elements can be read and written, but for inputs without bits, of which a vector can be read. With non-temporal stores
    /// outputs at `head` are multiples of a line. `head` is less than two vectors.
    #[inline(always)]
    unsafe fn all(&self, head: usize, n: usize, past: bool, f: impl Fn([Twice<V>; X], [Twice<V>; C]) -> [Twice<V>; O]) {
        let VectorPairs { from, to, numbers, going_on } = *self;
        let lanes = V::LANES;
        let mut i = 0;
        while i < n {
            let count = if i < head { head - i } else { (n - i).min(2 * lanes) };
            let is_whole = count == 2 * lanes;
            let (first, second) = (lanes.min(count), count.saturating_sub(lanes));
            let mut x = [Twice::<V>::constant(0.0); X];
            for k in 0..X {
                // SAFETY: the caller's promise; of no elements, nothing is read.
                x[k] = unsafe {
                    let (at, next) = (from[k].0.add(i & from[k].1), from[k].0.add((i + first) & from[k].1));
                    if is_whole { Twice(V::load(at), V::load(next)) } else { Twice(V::load_first(at, first), V::load_first(next, second)) }
                };
            }
            let y = f(x, numbers);
            if past && is_whole {
                for at in going_on {
                    for line in (0..2 * lanes).step_by(WIDEST) {
                        stream::hint_ahead(at.wrapping_add(i + line));
                    }
                }
            }
            for k in 0..O {
                // SAFETY: as above; inputs that share an output's memory have been read at i.
                unsafe {
                    let (at, next) = (to[k].add(i), to[k].add(i + first));
                    match (is_whole, past) {
                        (true, true) => {
                            y[k].0.store_past(at);
                            y[k].1.store_past(next);
                        }
                        (true, false) => {
                            y[k].0.store(at);
                            y[k].1.store(next);
                        }
                        (false, _) => {
                            y[k].0.store_first(at, first);
                            y[k].1.store_first(next, second);
                        }
                    }
                }
            }
            i += count;
        }
    }
}
