//! Rows of a result that is written by non-temporal stores: while the exponentials of one row are formed, the result of the row
//! before is written, so that memory is busy while numbers are computed. Must not know what a result is made of its
//! exponentials ([`MadeRow`] does).
use super::rows::{Summed, map_to, max, sum_twice};
use crate::{
    math::elementary::exp,
    reduce::tree::LANES,
    simd::{
        Arithmetic, Simd, SimdKernel,
        stream::{LINE, ReadAhead},
        twice::Twice,
    },
};

/// What makes a row's result, number by number.
pub(super) trait MadeRow<T: Summed>: Copy {
    /// The result for two vectors of the numbers that it is made from.
    fn of<S: Simd>(self, from: Twice<T::V<S>>) -> Twice<T::V<S>>;
    /// Sets right what is different about single elements, once the others are written.
    fn correct(self, _from: &[T], _out: &mut [T]) {}
}

/// e^(x - largest) of a row into `e`, if it is wanted. Meanwhile memory is kept busy: the result of the row before is
/// written by non-temporal stores, if there is one; the largest of the next row is found, if that is in the cache; and what comes
/// soon is asked for.
pub(super) struct Exponentials<'a, T, M> {
    pub x: &'a [T],
    /// if it was found already
    pub largest: Option<T>,
    pub e: Option<&'a mut [T]>,
    pub before: Option<Writing<'a, T, M>>,
    pub next: &'a [T],
    pub soon: ReadAhead<'a>,
}
/// What is known of a row when its exponentials are.
pub(super) struct KnownRow<T> {
    pub largest: T,
    /// at most the smallest of the exponentials
    pub least: T,
    pub total: T,
    pub largest_of_next: T,
}
impl<T: Summed, M: MadeRow<T>> SimdKernel for Exponentials<'_, T, M> {
    type Output = KnownRow<T>;
    #[inline(always)]
    fn run<S: Simd>(self) -> KnownRow<T> {
        let Exponentials { x, largest, e, before, next, soon } = self;
        let largest = match largest {
            Some(largest) => largest,
            None => max::<S, T>(x),
        };
        let all = Twice::<T::V<S>>::splat(largest);
        let mut before = before.map(Steps::new::<S>);
        let (lanes, lowest) = (Twice::<T::V<S>>::LANES, Twice::<T::V<S>>::splat(T::LOWEST));
        let (mut seen, mut most, mut least) = (0, lowest, lowest.neg());
        let total = sum_twice::<S, T>(
            x,
            e,
            #[inline(always)]
            |x| {
                soon.fetch_line();
                soon.fetch_line();
                if seen + lanes <= next.len() {
                    most = Twice::from_slice(&next[seen..]).max(most);
                    seen += lanes;
                }
                if let Some(before) = &mut before {
                    before.step::<S>();
                }
                let e = exp(x.sub(all));
                least = e.min(least);
                e
            },
        );
        if let Some(before) = before {
            before.finish::<S>();
        }
        let largest_of_next = max::<S, T>(&[largest_lane::<S, T>(most), max::<S, T>(&next[seen..])]);
        KnownRow { largest, least: -largest_lane::<S, T>(least.neg()), total: T::nearest(total), largest_of_next }
    }
}
#[inline(always)]
fn largest_lane<S: Simd, T: Summed>(x: Twice<T::V<S>>) -> T {
    let mut lanes = [T::LOWEST; 2 * LANES];
    x.write(&mut lanes);
    max::<S, T>(&lanes[..Twice::<T::V<S>>::LANES])
}

/// The result of neighbouring elements.
pub(super) struct Writing<'a, T, M> {
    pub from: &'a [T],
    pub made: M,
    pub out: &'a mut [T],
}
impl<T: Summed, M: MadeRow<T>> Writing<'_, T, M> {
    /// Writes the elements from `first` on, by non-temporal stores if asked for.
    #[inline(always)]
    fn write<S: Simd>(&mut self, past: bool, first: usize, count: usize) {
        let made = self.made;
        map_to::<S, T>(
            past,
            &mut self.out[first..first + count],
            &self.from[first..first + count],
            #[inline(always)]
            |from| made.of::<S>(from),
        );
    }
    fn correct(self) {
        self.made.correct(self.from, self.out);
    }
}
/// All of it at once, into the caches.
impl<T: Summed, M: MadeRow<T>> SimdKernel for Writing<'_, T, M> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        self.write::<S>(false, 0, self.out.len());
        self.correct();
    }
}
/// A result that is written by non-temporal stores, two vectors at a time.
struct Steps<'a, T, M> {
    of: Writing<'a, T, M>,
    done: usize,
}
impl<'a, T: Summed, M: MadeRow<T>> Steps<'a, T, M> {
    /// Begins where a line of the result does.
    #[inline(always)]
    fn new<S: Simd>(mut of: Writing<'a, T, M>) -> Steps<'a, T, M> {
        // Only an interpreter of Rust may decline to tell.
        let done = of.out.as_ptr().align_offset(LINE).min(of.out.len());
        of.write::<S>(false, 0, done);
        Steps { of, done }
    }
    #[inline(always)]
    fn step<S: Simd>(&mut self) {
        let (lanes, Writing { from, made, out }) = (Twice::<T::V<S>>::LANES, &mut self.of);
        if self.done + lanes <= out.len() {
            made.of::<S>(Twice::from_slice(&from[self.done..])).write_past(&mut out[self.done..]);
            self.done += lanes;
        }
    }
    #[inline(always)]
    fn finish<S: Simd>(mut self) {
        self.of.write::<S>(true, self.done, self.of.out.len() - self.done);
        self.of.correct();
    }
}
/// The last row's result, which has no next row to be written beside.
pub(super) struct LastRow<'a, T, M>(pub Writing<'a, T, M>);
impl<T: Summed, M: MadeRow<T>> SimdKernel for LastRow<'_, T, M> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        Steps::new::<S>(self.0).finish::<S>();
    }
}
