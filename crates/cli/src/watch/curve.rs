//! A curve of any length in bounded memory: when there are too many points, every other one goes.

/// The most points that are kept; no terminal shows more.
const MOST: usize = 4096;

/// Values by steps.
#[derive(Default)]
pub struct SeenCurve {
    points: Vec<(f64, f64)>,
    /// of so many points that come one is kept, beside the last
    stride: usize,
    came: usize,
    last: Option<(f64, f64)>,
}
impl SeenCurve {
    /// A point behind those that there are. What is no number is left out.
    pub fn add(&mut self, step: u64, value: Option<f64>) {
        let Some(value) = value.filter(|v| v.is_finite()) else { return };
        let point = (step as f64, value);
        self.last = Some(point);
        if self.came % self.stride.max(1) == 0 {
            self.points.push(point);
            if self.points.len() >= MOST {
                let mut k = 0;
                self.points.retain(|_| {
                    k += 1;
                    k % 2 == 1
                });
                self.stride = self.stride.max(1) * 2;
            }
        }
        self.came += 1;
    }
    /// The points, the newest among them.
    pub fn points(&self) -> Vec<(f64, f64)> {
        let mut points = self.points.clone();
        points.extend(self.last.filter(|last| points.last() != Some(last)));
        points
    }
    /// The newest.
    pub fn last(&self) -> Option<(u64, f64)> {
        self.last.map(|(step, value)| (step as u64, value))
    }
    /// The values of the newest points, at most so many.
    pub fn newest(&self, most: usize) -> Vec<f64> {
        let points = self.points();
        points.get(points.len().saturating_sub(most)..).unwrap_or_default().iter().map(|(_, value)| *value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_that_grows_without_bound_or_loses_its_ends() {
        let mut curve = SeenCurve::default();
        for step in 0..1_000_000 {
            curve.add(step, Some(step as f64 / 2.0));
        }
        let points = curve.points();
        assert!(points.len() <= MOST && points.len() > MOST / 4, "{}", points.len());
        assert_eq!((points.first(), points.last()), (Some(&(0.0, 0.0)), Some(&(999_999.0, 499_999.5))));
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0));
        curve.add(1_000_000, Some(f64::NAN));
        curve.add(1_000_001, None);
        assert_eq!(curve.last(), Some((999_999, 499_999.5)));
        assert_eq!((curve.newest(3).len(), SeenCurve::default().newest(3).len()), (3, 0));
    }
}
