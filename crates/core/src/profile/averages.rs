//! Kernels added up: by what they are, by layer, line or range; as a table.
use super::{Kernel, Profile};
use adamant_runtime::table::columns;
use std::{collections::HashMap, fmt, time::Duration};

/// What kernels are put together by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum GroupBy {
    /// the ops in them
    #[default]
    Kernel,
    /// the ops in them and the shapes they read and wrote
    Shape,
    /// the layer they were recorded in
    Layer,
    /// the source line that applied their op
    Line,
    /// the innermost range they were recorded in
    Range,
}
/// What a table is sorted by, largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SortBy {
    /// the time of all calls together
    #[default]
    Total,
    /// the time of a call
    Mean,
    /// how often
    Calls,
    /// floating-point operations of all calls
    Flops,
    /// bytes read and written by all calls
    Bytes,
    /// the most that tensors held, with [`super::Profiler::profile_memory`]
    Memory,
}
/// What the machine can do at most, as measured by something else than what is profiled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// floating-point operations in a second, in 10^9
    pub gflops: f64,
    /// bytes from and to memory in a second, in 10^9
    pub gbytes: f64,
}
impl Ceilings {
    /// The least time in which so much can be done: by arithmetic or by memory, whichever takes longer.
    pub fn least(&self, flops: u64, bytes: u64) -> Duration {
        let seconds = (flops as f64 / self.gflops).max(bytes as f64 / self.gbytes) * 1e-9;
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }
}

/// The calls of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Average {
    /// what they have in common
    pub key: String,
    /// how many
    pub calls: u64,
    /// their time
    pub total: Duration,
    /// the shortest call
    pub min: Duration,
    /// the longest call
    pub max: Duration,
    /// their floating-point operations
    pub flops: u64,
    /// the bytes they read and wrote
    pub bytes: u64,
    /// the most that tensors held behind one of them, with [`super::Profiler::profile_memory`]
    pub peak_bytes: Option<usize>,
}
impl Average {
    /// The time of a call.
    pub fn mean(&self) -> Duration {
        self.total.div_f64(self.calls.max(1) as f64)
    }
    /// Floating-point operations in a second, in 10^9.
    pub fn gflops(&self) -> f64 {
        per_second(self.flops, self.total)
    }
    /// Bytes in a second, in 10^9. More than memory gives is read from the cache.
    pub fn gbytes(&self) -> f64 {
        per_second(self.bytes, self.total)
    }
}
fn per_second(count: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() * 1e-9 }
}
/// Groups of kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct Averages {
    /// the groups, largest total first
    pub rows: Vec<Average>,
    /// the time of all kernels
    pub total: Duration,
    ceilings: Option<Ceilings>,
}

impl Profile {
    /// Kernels by what they are, and by their shapes if [`super::Profiler::record_shapes`] was set.
    pub fn key_averages(&self) -> Averages {
        self.averages(if self.shapes { GroupBy::Shape } else { GroupBy::Kernel })
    }
    /// Kernels added up.
    pub fn averages(&self, by: GroupBy) -> Averages {
        let mut rows: Vec<Average> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for k in &self.kernels {
            let key = key(k, by);
            let place = *places.entry(key).or_insert_with_key(|key| {
                let (key, zero) = (key.clone(), Duration::ZERO);
                rows.push(Average { key, calls: 0, total: zero, min: Duration::MAX, max: zero, flops: 0, bytes: 0, peak_bytes: None });
                rows.len() - 1
            });
            let row = &mut rows[place];
            row.calls += 1;
            row.total += k.time;
            row.min = row.min.min(k.time);
            row.max = row.max.max(k.time);
            row.flops = row.flops.saturating_add(k.flops);
            row.bytes = row.bytes.saturating_add(k.bytes);
            row.peak_bytes = row.peak_bytes.max(k.live_bytes);
        }
        let mut averages = Averages { total: rows.iter().map(|r| r.total).sum(), rows, ceilings: None };
        averages.sort(SortBy::Total);
        averages
    }
}
fn key(k: &Kernel, by: GroupBy) -> String {
    let or = |text: &str, else_: &str| if text.is_empty() { else_.to_string() } else { text.to_string() };
    match by {
        GroupBy::Kernel => k.name.to_string(),
        GroupBy::Shape => {
            let list = |metas: &[crate::Meta]| metas.iter().map(|m| format!("{}{}", m.dtype, m.shape)).collect::<Vec<_>>().join(" ");
            format!("{}  {} -> {}", k.name, list(&k.inputs), list(&k.outputs))
        }
        GroupBy::Layer => or(&k.layer, "(no layer)"),
        GroupBy::Line => k.origin.at.to_string(),
        GroupBy::Range => or(k.range.as_deref().unwrap_or(""), "(no range)"),
    }
}

impl Averages {
    /// Tables say how near each group comes to what the machine can do.
    pub fn with_ceilings(self, ceilings: Ceilings) -> Averages {
        Averages { ceilings: Some(ceilings), ..self }
    }
    fn sort(&mut self, by: SortBy) {
        // Equal ones by name: a table does not depend on the order of events.
        self.rows.sort_by(|a, b| {
            let order = match by {
                SortBy::Total => b.total.cmp(&a.total),
                SortBy::Mean => b.mean().cmp(&a.mean()),
                SortBy::Calls => b.calls.cmp(&a.calls),
                SortBy::Flops => b.flops.cmp(&a.flops),
                SortBy::Bytes => b.bytes.cmp(&a.bytes),
                SortBy::Memory => b.peak_bytes.cmp(&a.peak_bytes),
            };
            order.then_with(|| a.key.cmp(&b.key))
        });
    }
    /// The first rows as text, the rest in one line, all in the last.
    pub fn table(&self, by: SortBy, row_limit: usize) -> String {
        let mut sorted = self.clone();
        sorted.sort(by);
        let share = |time: Duration| if self.total.is_zero() { 0.0 } else { time.as_secs_f64() / self.total.as_secs_f64() * 100.0 };
        let mut lines = vec![["Kernel", "Calls", "Total ms", "%", "Mean us", "Min us", "Max us", "GFLOP/s", "GB/s"].map(String::from).to_vec()];
        let memory = self.rows.iter().any(|r| r.peak_bytes.is_some());
        if memory {
            lines[0].push("Held MB".into());
        }
        if self.ceilings.is_some() {
            lines[0].push("% of peak".into());
        }
        let micro = |d: Duration| format!("{:.1}", d.as_secs_f64() * 1e6);
        let rate = |x: f64| if x == 0.0 { "-".into() } else { format!("{x:.1}") };
        for r in sorted.rows.iter().take(row_limit) {
            let mut line = vec![shortened(&r.key), r.calls.to_string(), format!("{:.3}", r.total.as_secs_f64() * 1e3), format!("{:.1}", share(r.total))];
            line.extend([micro(r.mean()), micro(r.min), micro(r.max), rate(r.gflops()), rate(r.gbytes())]);
            if memory {
                line.push(r.peak_bytes.map_or("-".into(), |b| format!("{:.1}", b as f64 * 1e-6)));
            }
            if let Some(c) = self.ceilings {
                line.push(format!("{:.0}", c.least(r.flops, r.bytes).as_secs_f64() / r.total.as_secs_f64().max(1e-12) * 100.0));
            }
            lines.push(line);
        }
        let rest: &[Average] = sorted.rows.get(row_limit..).unwrap_or_default();
        let sum = |rows: &[Average]| (rows.iter().map(|r| r.calls).sum::<u64>().to_string(), rows.iter().map(|r| r.total).sum::<Duration>());
        if !rest.is_empty() {
            let (calls, total) = sum(rest);
            lines.push(vec![format!("({} others)", rest.len()), calls, format!("{:.3}", total.as_secs_f64() * 1e3), format!("{:.1}", share(total))]);
        }
        let (calls, total) = sum(&sorted.rows);
        lines.push(vec!["All".into(), calls, format!("{:.3}", total.as_secs_f64() * 1e3), "100.0".into()]);
        columns(&lines)
    }
}
impl fmt::Display for Averages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table(SortBy::Total, 20))
    }
}
/// Long names end in the middle: their last part tells the most.
fn shortened(name: &str) -> String {
    const WIDTH: usize = 72;
    let chars: Vec<char> = name.chars().collect();
    if chars.len() <= WIDTH {
        return name.into();
    }
    let (head, tail) = (&chars[..WIDTH / 2 - 2], &chars[chars.len() - WIDTH / 2 + 1..]);
    format!("{}...{}", head.iter().collect::<String>(), tail.iter().collect::<String>())
}
