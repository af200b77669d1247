//! Where the time of a thread went: kernels by the range that recorded them, and the host's own time by the range it was
//! in. Both together are the wall clock.
use super::{Profile, SpanKind};
use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

/// A range, or what was outside any.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// the range's name; empty outside any
    pub name: Arc<str>,
    /// how often it was entered
    pub count: u64,
    /// the kernels it recorded, whenever they ran
    pub kernels: Duration,
    /// its own time on the clock, without the ranges inside it and without kernels
    pub host: Duration,
}
impl Phase {
    /// What it cost.
    pub fn total(&self) -> Duration {
        self.kernels + self.host
    }
}
/// The phases of the thread that started the profiler; their totals add up to `wall`.
#[derive(Clone, Debug, PartialEq)]
pub struct Phases {
    /// in the order they were first entered; what was outside any range comes last
    pub rows: Vec<Phase>,
    /// from start to stop
    pub wall: Duration,
}

impl Profile {
    /// The thread's time by the ranges that [`super::record_function`] named.
    pub fn phases(&self) -> Phases {
        let mut rows: Vec<Phase> = Vec::new();
        let mut places: HashMap<Arc<str>, usize> = HashMap::new();
        let mut place = |rows: &mut Vec<Phase>, name: &Arc<str>| {
            *places.entry(name.clone()).or_insert_with(|| {
                rows.push(Phase { name: name.clone(), count: 0, kernels: Duration::ZERO, host: Duration::ZERO });
                rows.len() - 1
            })
        };
        // Moments in order: a range begins, a range ends, a kernel ran. The time between two of them is the innermost range's.
        enum At<'a> {
            Begin(&'a Arc<str>),
            End,
            Kernel(Duration),
        }
        let mut moments: Vec<(Duration, u8, At<'_>)> = Vec::new();
        for s in self.spans.iter().filter(|s| s.thread == self.thread && s.kind == SpanKind::Range) {
            moments.push((s.begin, 2, At::Begin(&s.name)));
            moments.push((s.begin + s.time, 0, At::End));
        }
        moments.extend(self.kernels.iter().filter(|k| k.thread == self.thread).map(|k| (k.begin, 1, At::Kernel(k.time))));
        moments.sort_by_key(|(at, order, _)| (*at, *order));
        let nowhere: Arc<str> = "".into();
        let (mut stack, mut since): (Vec<usize>, Duration) = (Vec::new(), Duration::ZERO);
        let mut outside = Duration::ZERO;
        for (at, _, what) in moments {
            let passed = at.saturating_sub(since);
            match stack.last() {
                Some(&inner) => rows[inner].host += passed,
                None => outside += passed,
            }
            since = since.max(at);
            match what {
                At::Begin(name) => {
                    let inner = place(&mut rows, name);
                    rows[inner].count += 1;
                    stack.push(inner);
                }
                At::End => {
                    stack.pop();
                }
                At::Kernel(time) => since += time,
            }
        }
        outside += self.wall.saturating_sub(since);
        for k in self.kernels.iter().filter(|k| k.thread == self.thread) {
            let of = place(&mut rows, k.range.as_ref().unwrap_or(&nowhere));
            rows[of].kernels += k.time;
        }
        let of = place(&mut rows, &nowhere);
        let mut last = rows.remove(of);
        last.host += outside;
        rows.push(last);
        Phases { rows, wall: self.wall }
    }
}
impl fmt::Display for Phases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milli = |d: Duration| format!("{:.3}", d.as_secs_f64() * 1e3);
        let share = |d: Duration| format!("{:.1}", d.as_secs_f64() / self.wall.as_secs_f64().max(1e-12) * 100.0);
        let mut lines = vec![["Phase", "Count", "Total ms", "%", "Kernels ms", "Host ms"].map(String::from).to_vec()];
        for r in &self.rows {
            let name = if r.name.is_empty() { "(outside)" } else { &r.name };
            lines.push(vec![name.into(), r.count.to_string(), milli(r.total()), share(r.total()), milli(r.kernels), milli(r.host)]);
        }
        lines.push(vec!["Wall".into(), String::new(), milli(self.wall), "100.0".into()]);
        f.write_str(&columns(&lines))
    }
}
/// Lines of cells as columns: the first to the left, numbers to the right.
pub(super) fn columns(lines: &[Vec<String>]) -> String {
    let cells = lines.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..cells).map(|c| lines.iter().filter_map(|l| l.get(c)).map(|t| t.chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for line in lines {
        for (c, cell) in line.iter().enumerate() {
            text += &if c == 0 { format!("{cell:<w$}", w = widths[c]) } else { format!("  {cell:>w$}", w = widths[c]) };
        }
        text += "\n";
    }
    text
}
