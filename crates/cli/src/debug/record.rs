//! What the files of a run have said so far, line by line, in bounded memory. What a line means is the page's affair.
//!
//! Of each kind of line some are kept: where they are many, every other one goes (what a curve needs), or the oldest (what a diary needs).
//! The last of a kind is always kept.
use serde_json::{Value, json};
use std::{collections::VecDeque, sync::Arc};

/// The files that are followed. Of a recorded step the page is told the head, and asks for the rest.
pub const FILES: [&str; 4] = ["metrics", "timing", "incidents", "profiles"];
/// The file of recorded steps among them.
pub const PROFILES: usize = 3;
/// Which lines go where there are too many.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Thinning {
    EveryOther,
    Oldest,
}
/// Of which file, which kind (none: any other), how many lines and bytes at most, and which go.
type KeptKind = (usize, Option<&'static str>, usize, usize, Thinning);
const KINDS: [KeptKind; 10] = [
    (0, Some("step"), 4096, 4 << 20, Thinning::EveryOther),
    (0, Some("layers"), 160, 24 << 20, Thinning::EveryOther),
    (0, Some("epoch"), 1024, 8 << 20, Thinning::EveryOther),
    (0, Some("test"), 4, 1 << 20, Thinning::Oldest),
    (0, None, 500, 2 << 20, Thinning::Oldest),
    (1, Some("step"), 2048, 2 << 20, Thinning::EveryOther),
    (1, Some("epoch"), 512, 1 << 20, Thinning::EveryOther),
    (1, None, 500, 1 << 20, Thinning::Oldest),
    (2, None, 200, 8 << 20, Thinning::Oldest),
    (3, None, 8, 24 << 20, Thinning::Oldest),
];

/// A line, and the how-manieth it was of all.
#[derive(Clone)]
pub struct KeptLine {
    pub number: u64,
    pub text: Arc<str>,
}
/// Lines of a kind.
struct KindLines {
    kind: KeptKind,
    lines: VecDeque<KeptLine>,
    bytes: usize,
    /// of so many lines that come one is kept, beside the last
    stride: u64,
    came: u64,
    last: Option<KeptLine>,
}
impl KindLines {
    fn of(kind: KeptKind) -> KindLines {
        KindLines { kind, lines: VecDeque::new(), bytes: 0, stride: 1, came: 0, last: None }
    }
    fn add(&mut self, line: KeptLine) {
        let (_, _, most, most_bytes, thinning) = self.kind;
        if self.came % self.stride == 0 {
            self.bytes += line.text.len();
            self.lines.push_back(line.clone());
        }
        self.came += 1;
        self.last = Some(line);
        while (self.lines.len() > most || self.bytes > most_bytes) && self.lines.len() > 1 {
            match thinning {
                Thinning::Oldest => drop(self.lines.pop_front()),
                Thinning::EveryOther => {
                    let mut k = 0;
                    self.lines.retain(|_| {
                        k += 1;
                        k % 2 == 1
                    });
                    self.stride = self.stride.saturating_mul(2);
                }
            }
            self.bytes = self.lines.iter().map(|line| line.text.len()).sum();
        }
    }
    fn all(&self) -> impl Iterator<Item = &KeptLine> {
        let last = self.last.iter().filter(|last| self.lines.back().is_none_or(|kept| kept.number != last.number));
        self.lines.iter().chain(last)
    }
}
/// See the module's documentation.
pub struct DebugRecord {
    kinds: Vec<KindLines>,
    number: u64,
    /// lines that are no JSON object
    unread: u64,
}
impl Default for DebugRecord {
    fn default() -> DebugRecord {
        DebugRecord { kinds: KINDS.into_iter().map(KindLines::of).collect(), number: 0, unread: 0 }
    }
}
impl DebugRecord {
    /// Forgets what a file has said: it begins anew.
    pub fn forget(&mut self, file: usize) {
        self.kinds.iter_mut().filter(|lines| lines.kind.0 == file).for_each(|lines| *lines = KindLines::of(lines.kind));
    }
    /// Takes a line of a file. Gives it as the page is told it; none where it is no JSON object.
    pub fn take(&mut self, file: usize, line: &[u8]) -> Option<Arc<str>> {
        let Some(value) = serde_json::from_slice::<Value>(line).ok().filter(Value::is_object) else {
            self.unread += 1;
            return None;
        };
        let kind = value["kind"].as_str().unwrap_or_default();
        self.number += 1;
        // Written anew: no byte in it is one that a stream of lines would stumble over.
        let line = KeptLine { number: self.number, text: value.to_string().into() };
        let told = if file == PROFILES { head(&value, line.number) } else { line.text.clone() };
        let of = self.kinds.iter_mut().find(|lines| lines.kind.0 == file && lines.kind.1.is_none_or(|known| known == kind));
        of.into_iter().for_each(|lines| lines.add(line.clone()));
        Some(told)
    }
    /// The lines of a file that are kept, in its order, as the page is told them.
    pub fn told(&self, file: usize) -> Vec<Arc<str>> {
        let mut lines: Vec<&KeptLine> = self.kinds.iter().filter(|lines| lines.kind.0 == file).flat_map(KindLines::all).collect();
        lines.sort_by_key(|line| line.number);
        let told = |line: &KeptLine| match file {
            PROFILES => head(&serde_json::from_str(&line.text).unwrap_or_default(), line.number),
            _ => line.text.clone(),
        };
        lines.into_iter().map(told).collect()
    }
    /// A recorded step, by its number.
    pub fn profile(&self, number: u64) -> Option<Arc<str>> {
        let mut lines = self.kinds.iter().filter(|lines| lines.kind.0 == PROFILES).flat_map(KindLines::all);
        lines.find(|line| line.number == number).map(|line| line.text.clone())
    }
    /// The last line of a kind.
    pub fn last(&self, file: usize, kind: &str) -> Option<Value> {
        let lines = self.kinds.iter().find(|lines| lines.kind.0 == file && lines.kind.1 == Some(kind))?;
        serde_json::from_str(&lines.last.as_ref()?.text).ok()
    }
    /// How many lines of a file have come, of all kinds.
    pub fn count(&self, file: usize) -> u64 {
        self.kinds.iter().filter(|lines| lines.kind.0 == file).map(|lines| lines.came).sum()
    }
    /// How many lines could not be read.
    pub fn unread(&self) -> u64 {
        self.unread
    }
}
/// What the page lists of a recorded step.
fn head(profile: &Value, number: u64) -> Arc<str> {
    let kernels = profile["kernels"].as_array().map_or(0, Vec::len);
    json!({ "id": number, "step": profile["step"], "wall_ms": profile["wall_ms"], "kernels": kernels, "left_out": profile["left_out"] }).to_string().into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lines_that_grow_without_bound_or_lose_their_ends() {
        let mut record = DebugRecord::default();
        for step in 0..100_000 {
            record.take(0, json!({ "kind": "step", "step": step }).to_string().as_bytes()).unwrap();
            record.take(0, json!({ "kind": format!("own{step}"), "step": step }).to_string().as_bytes()).unwrap();
        }
        let told: Vec<Value> = record.told(0).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let steps: Vec<u64> = told.iter().filter(|l| l["kind"] == "step").map(|l| l["step"].as_u64().unwrap()).collect();
        assert!(steps.len() <= 4097 && steps.len() > 1024 && steps.windows(2).all(|pair| pair[0] < pair[1]), "{}", steps.len());
        assert_eq!((steps.first(), steps.last(), told.len() - steps.len(), record.count(0)), (Some(&0), Some(&99_999), 500, 200_000));
        assert_eq!(record.last(0, "step").unwrap()["step"], 99_999);
        record.forget(0);
        assert!(record.told(0).is_empty() && record.count(0) == 0 && record.last(0, "step").is_none());
    }
    #[test]
    fn lines_that_are_larger_than_memory_should_be() {
        let mut record = DebugRecord::default();
        for step in 0..200 {
            record.take(0, json!({ "kind": "layers", "step": step, "x": "y".repeat(1 << 20) }).to_string().as_bytes()).unwrap();
        }
        let bytes: usize = record.told(0).iter().map(|line| line.len()).sum();
        assert!(bytes <= 26 << 20, "{bytes}");
    }
    #[test]
    fn a_line_that_is_none_or_a_recorded_step_that_is_told_whole() {
        let mut record = DebugRecord::default();
        for line in [&b"no json"[..], b"[1]", b"null", b"\xff\xfe", b"{\"kind\":"] {
            assert!(record.take(0, line).is_none());
        }
        assert_eq!(record.unread(), 5);
        assert!(!record.take(1, b"{\"kind\":\r\"step\", \"x\": \"\\r\\n\"}").unwrap().contains(['\r', '\n']));
        let told = record.take(PROFILES, br#"{"step": 3, "wall_ms": 1.5, "kernels": [[0], [1]], "left_out": 0}"#).unwrap();
        assert!(told.contains("\"kernels\":2") && record.told(PROFILES) == [told.clone()], "{told}");
        let id = serde_json::from_str::<Value>(&told).unwrap()["id"].as_u64().unwrap();
        assert!(record.profile(id).unwrap().contains("[[0],[1]]") && record.profile(id + 1).is_none());
    }
}
