//! The range about 0 whose codes lose the least information.

/// What a place without counts has of them, taken from those that have some.
const LITTLE: f64 = 1e-4;

/// How many bins on each side of the middle of a histogram about 0 codes are to span so that they lose the least information, of
/// `codes` steps; the bins are those from `middle - n` to `middle + n`, both among them. The divergence is that of the counts, with
/// those outside put at the ends, from what the codes tell of them: whole counts, the same for all bins of a step.
///
/// Source: Migacz 2017, "8-bit inference with TensorRT"; smoothing as in ONNX Runtime's entropy calibrator.
///
/// ```
/// # use adamant_quant::observe::entropy_threshold;
/// // A bell with a far outlier: codes that reach it would tell less of the bell.
/// let mut counts: Vec<f64> = (0..2048).map(|b| (1e6 * (-((b as f64 - 1023.5) / 60.0).powi(2)).exp()).floor()).collect();
/// counts[2040] = 3.0;
/// assert!(entropy_threshold(&counts, 128) < 400);
/// ```
pub fn entropy_threshold(counts: &[f64], codes: usize) -> usize {
    let middle = counts.len() / 2;
    let codes = codes.max(1);
    let mut best: Option<(f32, usize)> = None;
    for reach in codes / 2..=middle {
        let (start, end) = (middle - reach, (middle + reach + 1).min(counts.len()));
        let inside = &counts[start..end];
        let (Some(last), true) = (inside.len().checked_sub(1), inside.len() >= codes) else { continue };
        let mut wanted = inside.to_vec();
        wanted[0] += counts[..start].iter().sum::<f64>();
        wanted[last] += counts[end..].iter().sum::<f64>();
        let found = divergence(&wanted, inside, codes);
        if best.is_none_or(|(least, _)| found < least) {
            best = Some((found, reach));
        }
    }
    best.map_or(middle, |(_, reach)| reach)
}
/// Of counts from what `codes` steps tell of those inside: each step shares its sum out to its bins.
///
/// In f32 and in the order in which NumPy adds: where many divergences are nearly the least, rounding says which is.
fn divergence(wanted: &[f64], inside: &[f64], codes: usize) -> f32 {
    let merged = inside.len() / codes;
    let mut told = vec![0.0; inside.len()];
    for code in 0..codes {
        let (start, end) = (code * merged, (code + 1) * merged);
        // The last step has what is left over too, and none of its places.
        let counted = if code + 1 == codes { inside.len() } else { end };
        let filled = wanted[start..end].iter().filter(|w| **w != 0.0).count();
        if filled > 0 {
            told[start..end].fill((inside[start..counted].iter().sum::<f64>() / filled as f64).trunc());
        }
    }
    let (Some(wanted), Some(told)) = (smoothed(wanted), smoothed(&told)) else { return f32::INFINITY };
    let (all, all_told) = (pairwise_sum(&wanted), pairwise_sum(&told));
    let of = |(w, t): (&f32, &f32)| {
        let (w, t) = (w / all, t / all_told);
        w * f64::from(w / t).ln() as f32
    };
    pairwise_sum(&wanted.iter().zip(&told).map(of).collect::<Vec<f32>>())
}
/// Counts of which none is 0; `None`: all are, or so many that there is not enough to take from.
fn smoothed(counts: &[f64]) -> Option<Vec<f32>> {
    let zeros = counts.iter().filter(|c| **c == 0.0).count();
    let others = counts.len() - zeros;
    let taken = LITTLE * zeros as f64 / others as f64;
    (others > 0 && taken < 1.0).then(|| counts.iter().map(|c| if *c == 0.0 { LITTLE as f32 } else { *c as f32 - taken as f32 }).collect())
}
/// The sum of numbers by halves, of up to 128 in eight lanes.
fn pairwise_sum(of: &[f32]) -> f32 {
    match of.len() {
        ..8 => of.iter().fold(-0.0, |all, v| all + v),
        8..=128 => {
            let mut lanes = [0f32; 8];
            lanes.copy_from_slice(&of[..8]);
            let rows = of[8..].chunks_exact(8);
            let rest = rows.remainder();
            rows.for_each(|row| lanes.iter_mut().zip(row).for_each(|(lane, v)| *lane += v));
            let [a, b, c, d, e, f, g, h] = lanes;
            rest.iter().fold(((a + b) + (c + d)) + ((e + f) + (g + h)), |all, v| all + v)
        }
        n => {
            let half = n / 2 - n / 2 % 8;
            pairwise_sum(&of[..half]) + pairwise_sum(&of[half..])
        }
    }
}
