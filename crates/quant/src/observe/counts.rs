//! Values counted in bins that grow by halves: where a value lies beyond them, neighbours are joined until it does not, so that no
//! count is ever moved to another place than a wider bin around its own.
use super::least_error::ValuePoint;

/// Bins of a histogram, an even number.
const BINS: usize = 8192;

/// Counts of values between `-reach` and `reach`.
pub(super) struct ValueHistogram {
    reach: f64,
    counts: Vec<f64>,
    /// sums of the values in each bin, and of their squares
    sums: Vec<[f64; 2]>,
}
impl ValueHistogram {
    pub fn new() -> ValueHistogram {
        ValueHistogram { reach: 0.0, counts: vec![0.0; BINS], sums: vec![[0.0; 2]; BINS] }
    }
    /// Counts values; `most` is the largest absolute value among them.
    pub fn add(&mut self, values: &[f32], most: f64) {
        if self.reach == 0.0 {
            // A power of two, so that the bins' edges are the same for any order of batches.
            self.reach = 2f64.powi(most.max(f64::from(f32::MIN_POSITIVE)).log2().ceil() as i32);
        }
        while most > self.reach {
            self.reach *= 2.0;
            let half = BINS / 2;
            let joined: Vec<f64> = self.counts.chunks(2).map(|two| two.iter().sum()).collect();
            let sums: Vec<[f64; 2]> = self.sums.chunks(2).map(|two| two.iter().fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d])).collect();
            self.counts.fill(0.0);
            self.sums.fill([0.0; 2]);
            self.counts[half / 2..half / 2 + half].copy_from_slice(&joined);
            self.sums[half / 2..half / 2 + half].copy_from_slice(&sums);
        }
        let scale = BINS as f64 / (2.0 * self.reach);
        for v in values {
            let v = f64::from(*v);
            let bin = (((v + self.reach) * scale) as usize).min(BINS - 1);
            self.counts[bin] += 1.0;
            let [sum, squares] = &mut self.sums[bin];
            (*sum, *squares) = (*sum + v, *squares + v * v);
        }
    }
    pub fn counts(&self) -> &[f64] {
        &self.counts
    }
    pub fn width(&self) -> f64 {
        2.0 * self.reach / BINS as f64
    }
    /// The value of a rank, from 0 on, as far as bins tell: off by less than a bin.
    fn ranked(&self, rank: f64) -> f64 {
        let mut below = 0.0;
        for (bin, count) in self.counts.iter().enumerate() {
            if below + count > rank {
                return bin as f64 * self.width() - self.reach + self.width() * (rank - below + 0.5) / count;
            }
            below += count;
        }
        self.reach
    }
    /// The value that a share of all lies below, between the two of the nearest ranks, linearly. The smallest and the largest value are
    /// known.
    pub fn quantile(&self, share: f64, (low, high): (f64, f64)) -> f64 {
        let last = self.counts.iter().sum::<f64>() - 1.0;
        let place = share * last;
        let value = |rank: f64| match rank {
            r if r <= 0.0 => low,
            r if r >= last => high,
            r => self.ranked(r).clamp(low, high),
        };
        let (below, above) = (value(place.floor()), value(place.floor() + 1.0));
        below + (above - below) * (place - place.floor())
    }
    /// What is in the bins, from the least values on.
    pub fn points(&self) -> impl Iterator<Item = ValuePoint> {
        let full = self.counts.iter().zip(&self.sums).filter(|(count, _)| **count > 0.0);
        full.map(|(count, [sum, squares])| ValuePoint { at: sum / count, count: *count, spread: (squares - sum * sum / count).max(0.0) })
    }
}
