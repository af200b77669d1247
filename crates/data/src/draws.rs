//! Random numbers one after the other from the place of a reading: what is drawn for a record does not depend on who reads it.
use crate::Draw;
use adamant_core::rng::philox;

/// A generator whose numbers follow from a [`Draw`]: (seed, epoch, record). See [`Draw::rng`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawRng {
    key: [u32; 2],
    counter: [u32; 4],
    drawn: u64,
}
/// Keeps these numbers apart from those of [`Draw::uniform`].
const STREAM: u32 = 0x5345_5155;
impl Draw {
    /// A generator of its own for this reading, which begins anew each time it is asked for.
    ///
    /// ```
    /// use adamant_data::Draw;
    ///
    /// let draw = Draw { seed: 7, epoch: 2, index: 31 };
    /// let (mut a, mut b) = (draw.rng(), draw.rng());
    /// assert_eq!((a.uniform(), a.below(10)), (b.uniform(), b.below(10)));
    /// assert_ne!(a.uniform(), Draw { epoch: 3, ..draw }.rng().uniform());
    /// ```
    pub fn rng(&self) -> DrawRng {
        let (index, epoch) = (self.index as u64, self.epoch);
        // Of a seed and an epoch of 64 bits each a key of its own.
        let key = philox([self.seed as u32, (self.seed >> 32) as u32], [epoch as u32, (epoch >> 32) as u32, 0, STREAM]);
        DrawRng { key: [key[0], key[1]], counter: [0, index as u32, (index >> 32) as u32, STREAM], drawn: 0 }
    }
}
impl DrawRng {
    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        // 2³² numbers for one record are enough; the count is no part of the high words, which are the record's.
        self.counter[0] = self.drawn as u32;
        self.drawn += 1;
        let bits = philox(self.key, self.counter);
        u64::from(bits[0]) << 32 | u64::from(bits[1])
    }
    /// From 0 to below 1.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// From `low` to below `high`.
    pub fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }
    /// A whole number from 0 to below `n`; 0 if there is none.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }
    /// True with a probability.
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }
    /// Of mean 0 and variance 1 (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
    }
    /// Puts elements into an order in which each is as likely anywhere.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for k in (1..all.len()).rev() {
            let other = self.below(k + 1);
            all.swap(k, other);
        }
    }
}
