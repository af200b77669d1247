//! Fewer points with the same look: "largest triangle three buckets" (S. Steinarsson, "Downsampling Time Series for
//! Visual Representation", 2013, section 4.2). The points are cut into buckets of equal count; of each, the point is
//! kept that spans the largest triangle with the one kept before and the mean of the next bucket. Peaks survive, and
//! every point that is kept is one of the data.

/// At most `most` (but never fewer than 3) of the points, the first and the last among them.
pub fn largest_triangles(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    let (n, most) = (points.len(), most.max(3));
    let (Some(&first), Some(&last)) = (points.first(), points.last()) else { return Vec::new() };
    if n <= most {
        return points.to_vec();
    }
    let buckets = most - 2;
    // Bucket b holds the points from edge(b) to edge(b + 1); the first and the last point are outside.
    let edge = |b: usize| 1 + b * (n - 2) / buckets;
    let mut kept = Vec::with_capacity(most);
    kept.push(first);
    let mut before = first;
    for b in 0..buckets {
        let next = if b + 1 < buckets { &points[edge(b + 1)..edge(b + 2)] } else { &points[n - 1..] };
        let mean = next.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 / next.len() as f64, y + p.1 / next.len() as f64));
        let area = |p: &(f64, f64)| ((before.0 - mean.0) * (p.1 - before.1) - (before.0 - p.0) * (mean.1 - before.1)).abs();
        let mut best = (f64::NEG_INFINITY, before);
        for p in &points[edge(b)..edge(b + 1)] {
            // An area that overflows is the largest; of equal ones the first is taken.
            let a = if area(p).is_nan() { f64::MAX } else { area(p) };
            if a > best.0 {
                best = (a, *p);
            }
        }
        before = best.1;
        kept.push(before);
    }
    kept.push(last);
    kept
}
