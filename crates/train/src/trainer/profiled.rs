//! A step that is recorded because somebody asked for it from outside ([`ControlRequest::Profile`](crate::control::ControlRequest)): what
//! ran in it, when, for how long, in which layer, and what layers and parameters were like.
//!
//! The step is one line of `profiles.jsonl`. Kernels are rows of numbers under `columns`, in the order they began; the first four numbers of
//! a row count in `names`, `kinds`, `layers` and `phases_of`, since the same words come again and again. A line is bounded: of more than
//! 20,000 the longest are kept, and `left_out` says how many are not.
//!
//! A step that is replayed has the ranges of when it was traced, so recorded ones are captured apart: the first of a run is traced and planned, the
//! next ones show what any step does.
//!
//! Invariant: a recorded step has the bits of one that is not. It is told op for op what to compute as any other is, and is looked at as
//! `look_every` looks; its line is a report that nothing depends on, so that a disk which does not take it ends nothing.
use super::{Batch, learn::Learning};
use crate::{
    Failure,
    control::ControlAnswer,
    session::{Look, Stepped},
};
use adamant_data::Dataset;
use adamant_nn::Walk;

/// Is the next step to be recorded?
#[derive(Default)]
pub(super) struct ProfileWish {
    #[cfg(feature = "profiling")]
    next: bool,
}

#[cfg(not(feature = "profiling"))]
impl<M: Walk, D: Dataset + ?Sized + 'static> Learning<'_, '_, M, D>
where
    D::Batch: Batch,
{
    /// What is not in the program cannot be asked for.
    pub(super) fn wish_profile(&mut self) -> ControlAnswer {
        ControlAnswer::Refused("this program was built without the feature `profiling`: steps cannot be recorded".into())
    }
    /// A step.
    pub(super) fn profiled_step(&mut self, group: &[D::Batch], look: Look) -> Result<Stepped, Failure> {
        self.session.step(group, look)
    }
}

#[cfg(feature = "profiling")]
mod recorded {
    use super::*;
    use crate::folder::{PROFILES, number, text_of};
    use adamant_core::profile::{Kernel, Profile, Profiler, SpanKind};
    use adamant_stability::LookedNumbers;
    use serde_json::{Value, json};
    use std::{
        collections::{BTreeMap, HashMap},
        fs::OpenOptions,
        io::{Error, Read, Seek, SeekFrom, Write},
        path::Path,
        time::Duration,
    };

    /// The most kernels in a line.
    const MOST_KERNELS: usize = 20_000;
    /// A file that is larger takes no more lines.
    const MOST_BYTES: u64 = 256 << 20;
    /// What the numbers of a kernel are, in their order.
    const COLUMNS: [&str; 9] = ["name", "kind", "layer", "phase", "start_ms", "ms", "flops", "bytes", "live_bytes"];

    impl<M: Walk, D: Dataset + ?Sized + 'static> Learning<'_, '_, M, D>
    where
        D::Batch: Batch,
    {
        /// The next step is recorded, unless a profiler of the whole program runs.
        pub(in crate::trainer) fn wish_profile(&mut self) -> ControlAnswer {
            let Some(folder) = &self.folder else { return ControlAnswer::Refused("the run has no folder".into()) };
            let path = folder.path().join(PROFILES);
            if std::fs::metadata(&path).is_ok_and(|file| file.len() > MOST_BYTES) {
                return ControlAnswer::Refused(format!("{} has more than {} MiB: move it away first", path.display(), MOST_BYTES >> 20));
            }
            // To begin and stop at once says whether another one runs.
            match Profiler::new().start() {
                Ok(recording) => drop(recording),
                Err(e) => return ControlAnswer::Refused(e.to_string()),
            }
            self.controls.profile.next = true;
            ControlAnswer::Done(vec![("profile", text_of(&path).into())])
        }
        /// A step, recorded where somebody asked for that.
        pub(in crate::trainer) fn profiled_step(&mut self, group: &[D::Batch], look: Look) -> Result<Stepped, Failure> {
            if !std::mem::take(&mut self.controls.profile.next) {
                return self.session.step(group, look);
            }
            let recording = match Profiler::new().profile_memory(true).split_layers(true).start() {
                Ok(recording) => recording,
                Err(e) => {
                    self.watch.warn(&format!("the step is not recorded: {e}"));
                    return self.session.step(group, look);
                }
            };
            // Reading what layers are like waits for the whole step.
            let stepped = self.session.step(group, Look { layers: true, recorded: true, ..look })?;
            let profile = recording.stop();
            let at = self.session.position();
            let mut line = line_of(&profile, MOST_KERNELS);
            (line["step"], line["epoch"], line["look"]) = (at.step.into(), (at.epoch + 1).into(), look_of(stepped.layers.as_ref()));
            if let Some(folder) = &self.folder {
                let path = folder.path().join(PROFILES);
                match append(&path, &line) {
                    Ok(()) => self.watch.warn(&format!("step {} is recorded in {}, as somebody asked", at.step, path.display())),
                    Err(e) => self.watch.warn(&format!("{}: the recorded step cannot be written: {e}", path.display())),
                }
            }
            Ok(stepped)
        }
    }
    fn look_of(seen: Option<&LookedNumbers>) -> Value {
        seen.and_then(|seen| serde_json::to_value(seen).ok()).unwrap_or(Value::Null)
    }
    /// Adds a line behind those that are whole: what a disk that was full took of one is ended first.
    fn append(path: &Path, line: &Value) -> Result<(), Error> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut last = [b'\n'];
        if file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        let torn = if last == *b"\n" { "" } else { "\n" };
        file.write_all(format!("{torn}{line}\n").as_bytes())
    }
    fn milli(time: Duration) -> Value {
        // To the nanosecond.
        number((time.as_secs_f64() * 1e9).round() / 1e6)
    }
    /// Words by their numbers.
    #[derive(Default)]
    struct NumberedWords {
        words: Vec<String>,
        of: HashMap<String, usize>,
    }
    impl NumberedWords {
        fn number(&mut self, word: &str) -> usize {
            if let Some(known) = self.of.get(word) {
                return *known;
            }
            self.words.push(word.to_string());
            self.of.insert(word.to_string(), self.words.len() - 1);
            self.words.len() - 1
        }
    }
    /// The layer that a kernel belongs to: of its last op or, where that is in none, of those that cost most.
    fn layer(kernel: &Kernel) -> &str {
        let most = || kernel.layers.iter().filter(|(path, _)| !path.is_empty()).max_by(|a, b| a.1.total_cmp(&b.1)).map_or("", |(path, _)| path);
        if kernel.layer.is_empty() { most() } else { &kernel.layer }
    }
    /// What was recorded, as a line without its step.
    fn line_of(profile: &Profile, most: usize) -> Value {
        let mut kernels: Vec<&Kernel> = profile.kernels.iter().collect();
        let left_out = kernels.len().saturating_sub(most);
        kernels.sort_by_key(|kernel| std::cmp::Reverse(kernel.time));
        let left_out_time: Duration = kernels.iter().skip(most).map(|kernel| kernel.time).sum();
        kernels.truncate(most);
        kernels.sort_by_key(|kernel| kernel.begin);
        let (mut names, mut kinds, mut layers, mut ranges) =
            (NumberedWords::default(), NumberedWords::default(), NumberedWords::default(), NumberedWords::default());
        let mut shapes: BTreeMap<&str, Value> = BTreeMap::new();
        let mut rows = Vec::with_capacity(kernels.len());
        for kernel in kernels {
            let (of, range) = (layer(kernel), kernel.range.as_deref().unwrap_or_default());
            if let (Some(output), true) = (kernel.outputs.first(), range == "forward" && !of.is_empty()) {
                shapes.insert(of, json!(output.shape.to_vec()));
            }
            rows.push(json!([
                names.number(&kernel.name),
                kinds.number(kernel.family),
                layers.number(of),
                ranges.number(range),
                milli(kernel.begin),
                milli(kernel.time),
                kernel.flops,
                kernel.bytes,
                kernel.live_bytes,
            ]));
        }
        let phases = profile.phases();
        let phase = |p: &adamant_core::profile::Phase| json!({ "name": &*p.name, "count": p.count, "kernels_ms": milli(p.kernels), "host_ms": milli(p.host) });
        let plans: Duration = profile.spans.iter().filter(|span| span.kind == SpanKind::Plan).map(|span| span.time).sum();
        json!({
            "kind": "profile", "wall_ms": milli(profile.wall), "plan_ms": milli(plans), "phases": phases.rows.iter().map(phase).collect::<Vec<_>>(),
            "names": names.words, "kinds": kinds.words, "layers": layers.words, "phases_of": ranges.words, "shapes": shapes,
            "columns": COLUMNS, "kernels": rows, "left_out": left_out, "left_out_ms": milli(left_out_time),
        })
    }

    #[cfg(test)]
    mod tests {
        #![allow(clippy::unwrap_used)]
        use super::*;
        use adamant_core::{Device, Tensor, profile::profile};

        #[test]
        fn a_recorded_step_without_a_bound_or_out_of_order() {
            let (done, profile) = Device::reference().scoped(|| {
                profile(|| {
                    let mut x = Tensor::ones([4, 4]);
                    for _ in 0..5 {
                        x = x.matmul(&x);
                        x.materialize()?;
                    }
                    Ok::<_, adamant_core::Error>(())
                })
                .unwrap()
            });
            done.unwrap();
            for most in [0, 1, 3, 100] {
                let line = line_of(&profile, most);
                let rows = line["kernels"].as_array().unwrap();
                let kept = profile.kernels.len().min(most);
                assert_eq!((rows.len(), line["left_out"].as_u64().unwrap() as usize), (kept, profile.kernels.len() - kept), "{most}");
                let column = |row: &Value, name: &str| row[COLUMNS.iter().position(|c| *c == name).unwrap()].as_f64().unwrap();
                assert!(rows.windows(2).all(|pair| column(&pair[0], "start_ms") <= column(&pair[1], "start_ms")));
                let shown: f64 = rows.iter().map(|row| column(row, "ms")).sum();
                let all: f64 = profile.kernels.iter().map(|k| k.time.as_secs_f64() * 1e3).sum();
                assert!((shown + line["left_out_ms"].as_f64().unwrap() - all).abs() < 1e-3 && line["names"].as_array().unwrap().len() <= kept);
            }
        }
        #[test]
        fn a_line_that_is_written_behind_half_a_line() {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("lines");
            append(&path, &json!(1)).unwrap();
            std::fs::write(&path, "1\n{\"to").unwrap();
            append(&path, &json!(2)).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n{\"to\n2\n");
        }
    }
}
