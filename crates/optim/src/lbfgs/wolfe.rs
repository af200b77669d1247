//! A line search that ends where the strong Wolfe conditions hold, as `torch.optim.LBFGS` has it from minFunc (Schmidt 2005).
//! It knows numbers and one function of them; what a gradient is it need not know.
use adamant_core::Result;

/// What the objective is at a step length: its value, its slope along the direction, and the gradient there.
#[derive(Clone)]
pub(super) struct Probe<G> {
    pub t: f64,
    pub value: f64,
    pub slope: f64,
    pub gradient: G,
}
/// The value has to fall by this part of what the slope promises.
const SUFFICIENT: f64 = 1e-4;
/// The slope has to flatten to this part of the first one.
const CURVATURE: f64 = 0.9;

/// The least of the cubic through two points with their slopes, within bounds.
fn cubic<G>(a: &Probe<G>, b: &Probe<G>, bounds: Option<(f64, f64)>) -> f64 {
    let (low, high) = bounds.unwrap_or(if a.t <= b.t { (a.t, b.t) } else { (b.t, a.t) });
    let d1 = a.slope + b.slope - 3.0 * (a.value - b.value) / (a.t - b.t);
    let square = d1 * d1 - a.slope * b.slope;
    // Not where it is negative, and not where it is no number.
    if square >= 0.0 {
        let d2 = square.sqrt();
        let at = if a.t <= b.t {
            b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2.0 * d2))
        } else {
            a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2.0 * d2))
        };
        // In Python's order, which lets a bound win over what is no number.
        let above = if low > at { low } else { at };
        if high < above { high } else { above }
    } else {
        (low + high) / 2.0
    }
}
/// Where a search along a direction starts, and when it gives up.
pub(super) struct Search {
    /// the largest element of the direction
    pub reach: f64,
    pub tolerance_change: f64,
    pub most: usize,
}
impl Search {
    /// From a start at length 0, first by `t`: the point that was found and how often the objective was evaluated.
    pub fn run<G: Clone>(&self, start: &Probe<G>, t: f64, probe: &mut dyn FnMut(f64) -> Result<Probe<G>>) -> Result<(Probe<G>, usize)> {
        let falls = |p: &Probe<G>| p.value <= start.value + SUFFICIENT * p.t * start.slope;
        let is_flat = |p: &Probe<G>| p.slope.abs() <= -CURVATURE * start.slope;
        let (mut now, mut before) = (probe(t)?, start.clone());
        let (mut evaluations, mut rounds) = (1, 0);
        // Lengths between which such a point lies.
        let mut bracket = None;
        while rounds < self.most {
            if !falls(&now) || (rounds > 1 && now.value >= before.value) {
                bracket = Some([before.clone(), now.clone()]);
                break;
            }
            if is_flat(&now) {
                return Ok((now, evaluations));
            }
            if now.slope >= 0.0 {
                bracket = Some([before.clone(), now.clone()]);
                break;
            }
            let bounds = (now.t + 0.01 * (now.t - before.t), now.t * 10.0);
            let t = cubic(&before, &now, Some(bounds));
            before = std::mem::replace(&mut now, probe(t)?);
            evaluations += 1;
            rounds += 1;
        }
        let bracket = bracket.unwrap_or_else(|| [start.clone(), now]);
        let (found, more) = self.zoom(bracket, rounds, (&falls, &is_flat), probe)?;
        Ok((found, evaluations + more))
    }
    /// Narrows the bracket until a point in it will do.
    fn zoom<G: Clone>(
        &self,
        mut bracket: [Probe<G>; 2],
        mut rounds: usize,
        (falls, is_flat): (&dyn Fn(&Probe<G>) -> bool, &dyn Fn(&Probe<G>) -> bool),
        probe: &mut dyn FnMut(f64) -> Result<Probe<G>>,
    ) -> Result<(Probe<G>, usize)> {
        let lower = |b: &[Probe<G>; 2]| if b[0].value <= b[1].value { (0, 1) } else { (1, 0) };
        let ((mut low, mut high), mut evaluations) = (lower(&bracket), 0);
        let mut stuck = false;
        while rounds < self.most {
            let ends = (bracket[0].t.min(bracket[1].t), bracket[0].t.max(bracket[1].t));
            if (bracket[1].t - bracket[0].t).abs() * self.reach < self.tolerance_change {
                break;
            }
            let mut t = cubic(&bracket[0], &bracket[1], None);
            // Close to an end again, or at one, nothing is gained: a tenth of the bracket away from it.
            let margin = 0.1 * (ends.1 - ends.0);
            if (ends.1 - t).min(t - ends.0) < margin {
                if stuck || t >= ends.1 || t <= ends.0 {
                    t = if (t - ends.1).abs() < (t - ends.0).abs() { ends.1 - margin } else { ends.0 + margin };
                    stuck = false;
                } else {
                    stuck = true;
                }
            } else {
                stuck = false;
            }
            let now = probe(t)?;
            evaluations += 1;
            rounds += 1;
            if !falls(&now) || now.value >= bracket[low].value {
                bracket[high] = now;
                (low, high) = lower(&bracket);
                continue;
            }
            let done = is_flat(&now);
            if !done && now.slope * (bracket[high].t - bracket[low].t) >= 0.0 {
                bracket[high] = bracket[low].clone();
            }
            bracket[low] = now;
            if done {
                break;
            }
        }
        let [first, second] = bracket;
        Ok((if low == 0 { first } else { second }, evaluations))
    }
}
