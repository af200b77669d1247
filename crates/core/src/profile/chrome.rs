//! The timeline as a file: Chrome's trace format (Perfetto opens it), and folded stacks for flame graphs.
//!
//! Source of the format: "Trace Event Format", complete events (`ph` = `X`), times in microseconds.
use super::{Kernel, Profile};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, Write},
    time::Duration,
};

impl Profile {
    /// Writes the trace as JSON.
    ///
    /// # Errors
    /// What the writer returns.
    pub fn write_chrome_trace(&self, to: &mut dyn Write) -> io::Result<()> {
        write!(to, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        for (tid, name) in self.threads.iter().enumerate() {
            let comma = if tid == 0 { "" } else { "," };
            write!(to, "{comma}\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{tid},\"name\":\"thread_name\",\"args\":{{\"name\":{}}}}}", text(name))?;
        }
        for s in &self.spans {
            event(to, (&s.name, s.kind.name(), s.thread), s.begin, s.time, "")?;
        }
        for k in &self.kernels {
            event(to, (&k.name, k.family, k.thread), k.begin, k.time, &arguments(k))?;
        }
        writeln!(to, "\n]}}")
    }
    /// Folded stacks, one a line: `range;layer;sublayer;kernel microseconds`, as flame graph tools read them.
    pub fn folded(&self) -> String {
        let mut stacks: BTreeMap<String, Duration> = BTreeMap::new();
        for k in &self.kernels {
            let layers = k.layer.split('.').filter(|l| !l.is_empty());
            let frames = k.range.as_deref().into_iter().chain(layers).chain([&*k.name]);
            let stack = frames.map(|f| f.replace([';', ' ', '\n'], "_")).collect::<Vec<_>>().join(";");
            *stacks.entry(stack).or_default() += k.time;
        }
        stacks.iter().fold(String::new(), |mut all, (stack, time)| {
            let _ = writeln!(all, "{stack} {}", time.as_micros());
            all
        })
    }
}
fn event(to: &mut dyn Write, (name, category, thread): (&str, &str, u32), begin: Duration, time: Duration, arguments: &str) -> io::Result<()> {
    let micro = |d: Duration| d.as_nanos() as f64 / 1e3;
    let (name, category, begin, time) = (text(name), text(category), micro(begin), micro(time));
    write!(to, ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{thread},\"name\":{name},\"cat\":{category},\"ts\":{begin:.3},\"dur\":{time:.3},\"args\":{{{arguments}}}}}")
}
fn arguments(k: &Kernel) -> String {
    let list = |metas: &[crate::Meta]| metas.iter().map(|m| text(&format!("{}{}", m.dtype, m.shape))).collect::<Vec<_>>().join(",");
    let mut all = format!("\"inputs\":[{}],\"outputs\":[{}],\"bytes\":{},\"flops\":{}", list(&k.inputs), list(&k.outputs), k.bytes, k.flops);
    for (name, value) in [("line", k.origin.at.to_string()), ("layer", k.layer.to_string()), ("range", k.range.as_deref().unwrap_or("").into())] {
        let _ = write!(all, ",\"{name}\":{}", text(&value));
    }
    if let Some(bytes) = k.live_bytes {
        let _ = write!(all, ",\"live_bytes\":{bytes}");
    }
    all
}
/// A JSON string.
pub(super) fn text(s: &str) -> String {
    let mut out = String::from("\"");
    for c in s.chars() {
        match c {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out + "\""
}
