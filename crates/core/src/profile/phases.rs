//! Where the time of a thread went: kernels by the range that recorded them, and the host's own time by the range it was
//! in. Both together are the wall clock.
use super::{Profile, Span, SpanKind};
use adamant_runtime::table::columns;
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

/// What happens on the way of a thread.
enum PhaseEvent<'a> {
    Begin(&'a Arc<str>),
    End,
    Kernel(Duration),
}
/// Rows by name, in the order they are first asked for.
#[derive(Default)]
struct PhaseRows {
    rows: Vec<Phase>,
    places: HashMap<Arc<str>, usize>,
}
impl PhaseRows {
    fn place(&mut self, name: &Arc<str>) -> usize {
        *self.places.entry(name.clone()).or_insert_with(|| {
            self.rows.push(Phase { name: name.clone(), count: 0, kernels: Duration::ZERO, host: Duration::ZERO });
            self.rows.len() - 1
        })
    }
    /// The phases, with what was outside any at the end.
    fn finish(mut self, outside: Duration, wall: Duration) -> Phases {
        let of = self.place(&"".into());
        let mut last = self.rows.remove(of);
        last.host += outside;
        self.rows.push(last);
        Phases { rows: self.rows, wall }
    }
}

impl Profile {
    /// The thread's time by the ranges that [`super::record_function`] named. A kernel counts where its op was recorded,
    /// whenever it ran.
    pub fn phases(&self) -> Phases {
        let mut rows = PhaseRows::default();
        let spans = self.spans.iter().filter(|s| s.kind == SpanKind::Range).map(|s| (&s.name, s));
        let outside = self.walk(spans, &mut rows, |_, _, _| {});
        let nowhere: Arc<str> = "".into();
        for k in self.kernels.iter().filter(|k| k.thread == self.thread) {
            let of = rows.place(k.range.as_ref().unwrap_or(&nowhere));
            rows.rows[of].kernels += k.time;
        }
        rows.finish(outside, self.wall)
    }
    /// The thread's time by these ranges only: what lies inside one of them and in no inner one of them is its own,
    /// kernels too, by when they ran. The name `plan` stands for the scheduler's work on new plans, wherever it is done.
    ///
    /// ```
    /// # use adamant_core::{Device, Tensor, profile::{profile, record_function}};
    /// # Device::reference().make_current();
    /// let (done, profile) = profile(|| {
    ///     let _run = record_function("run");
    ///     let _inner = record_function("forward");
    ///     Tensor::ones([4]).exp().materialize()
    /// })?;
    /// done?;
    /// let phases = profile.phases_among(&["run"]);
    /// assert_eq!(phases.rows.iter().map(|p| &*p.name).collect::<Vec<_>>(), ["run", ""]);
    /// assert_eq!(phases.rows.iter().map(|p| p.total()).sum::<std::time::Duration>(), phases.wall);
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    pub fn phases_among(&self, names: &[&str]) -> Phases {
        let mut rows = PhaseRows::default();
        let plan: Arc<str> = SpanKind::Plan.name().into();
        names.iter().for_each(|name| _ = rows.place(&Arc::from(*name)));
        let spans = self.spans.iter().filter_map(|s| match s.kind {
            SpanKind::Range => Some((&s.name, s)),
            SpanKind::Plan => Some((&plan, s)),
            SpanKind::Flush => None,
        });
        let mut outside_kernels = Duration::ZERO;
        let spans = spans.filter(|(name, _)| names.contains(&&***name));
        let outside = self.walk(spans, &mut rows, |rows, innermost, time| match innermost {
            Some(of) => rows.rows[of].kernels += time,
            None => outside_kernels += time,
        });
        let nowhere = rows.place(&"".into());
        rows.rows[nowhere].kernels += outside_kernels;
        rows.finish(outside, self.wall)
    }
    /// Goes along the thread's moments: the time between two of them is the innermost span's own, but for kernels, which
    /// are told with the span they ran in. Gives the time outside any.
    fn walk<'a>(
        &self,
        spans: impl Iterator<Item = (&'a Arc<str>, &'a Span)>,
        rows: &mut PhaseRows,
        mut kernel: impl FnMut(&mut PhaseRows, Option<usize>, Duration),
    ) -> Duration {
        let mut moments: Vec<(Duration, u8, PhaseEvent<'_>)> = Vec::new();
        for (name, s) in spans.filter(|(_, s)| s.thread == self.thread) {
            // It begins and ends at one moment, and nothing is in it.
            if s.time.is_zero() {
                let of = rows.place(name);
                rows.rows[of].count += 1;
                continue;
            }
            moments.push((s.begin, 2, PhaseEvent::Begin(name)));
            moments.push((s.begin + s.time, 0, PhaseEvent::End));
        }
        moments.extend(self.kernels.iter().filter(|k| k.thread == self.thread).map(|k| (k.begin, 1, PhaseEvent::Kernel(k.time))));
        moments.sort_by_key(|(at, order, _)| (*at, *order));
        let (mut stack, mut since): (Vec<usize>, Duration) = (Vec::new(), Duration::ZERO);
        let mut outside = Duration::ZERO;
        for (at, _, what) in moments {
            let passed = at.saturating_sub(since);
            match stack.last() {
                Some(&inner) => rows.rows[inner].host += passed,
                None => outside += passed,
            }
            since = since.max(at);
            match what {
                PhaseEvent::Begin(name) => {
                    let inner = rows.place(name);
                    rows.rows[inner].count += 1;
                    stack.push(inner);
                }
                PhaseEvent::End => {
                    stack.pop();
                }
                PhaseEvent::Kernel(time) => {
                    kernel(rows, stack.last().copied(), time);
                    since += time;
                }
            }
        }
        outside + self.wall.saturating_sub(since)
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
