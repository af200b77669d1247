//! Whose line an error names. Every function is called wrongly in every way that follows from its entry (other shapes,
//! dtypes, devices, arguments of the registered wrong calls), and each error must name a line outside the library: the
//! caller's, here a line of the registry or of this file.
use crate::{
    data::download,
    layouts::lay,
    random::Random,
    registry::{Entry, entries},
    wrong::JudgedErrors,
};
use adamant_core::{DType, Device, Error, Tensor};
use std::collections::BTreeMap;

/// Errors that name a line of the library, by that line, with the call; and how many errors there were.
#[derive(Default, Debug)]
pub struct NamedLines {
    /// errors that were provoked
    pub provoked: usize,
    /// the library's line → the function called and what was said
    pub inside: BTreeMap<String, String>,
    /// what else is wrong with them
    pub texts: JudgedErrors,
}
impl NamedLines {
    /// Looks at an error of a call.
    pub fn look(&mut self, (name, text): (&str, &str), takes_tensors: bool, case: &str, error: &Error) {
        self.provoked += 1;
        if !case.ends_with("backward") {
            self.texts.judge((name, text), takes_tensors, case, error);
        }
        let at = error.location();
        if is_inside(at.file()) {
            self.inside.entry(format!("{}:{}", at.file(), at.line())).or_insert_with(|| format!("{name} [{case}]: {error}"));
        }
    }
}
/// Is this a source file of the library? The suite itself is a caller, and so are tests, examples and the tools.
pub fn is_inside(file: &str) -> bool {
    let file = file.replace('\\', "/");
    let of_a_crate = file.contains("crates/") && file.contains("/src/");
    file.starts_with("/rustc/") || (of_a_crate && !file.contains("crates/conformance/"))
}
/// A wrong version of the inputs: its name, and what it does to input number k.
type Wrong = (&'static str, fn(&Tensor, usize, Device) -> Tensor);
const WRONG: &[Wrong] = &[
    ("one axis more", |t, _, _| t.unsqueeze(0)),
    ("two axes more", |t, _, _| t.unsqueeze(0).unsqueeze(0)),
    ("a scalar", |t, _, device| t.dtype().map_or_else(Tensor::failed, |dtype| Tensor::full_on((), 1, dtype, device))),
    ("another size of the last axis", |t, _, _| grown(t, -1)),
    ("another size of the first axis", |t, _, _| grown(t, 0)),
    ("nothing along the first axis", |t, _, _| if t.rank() == 0 { t.clone() } else { t.narrow(0, 0, 0) }),
    ("bool", |t, _, _| t.cast(DType::Bool)),
    ("i64", |t, _, _| t.cast(DType::I64)),
    ("u8", |t, _, _| t.cast(DType::U8)),
    ("f32", |t, _, _| t.cast(DType::F32)),
    ("f64", |t, _, _| t.cast(DType::F64)),
    ("another device", |t, _, _| t.to(Device::reference())),
    ("negative", |t, _, _| if t.dtype().is_ok_and(|d| d == DType::Bool) { t.clone() } else { filled(t, -3) }),
    ("large", |t, _, _| if t.dtype().is_ok_and(|d| d == DType::Bool) { t.clone() } else { filled(t, 77) }),
];
/// The same shape and dtype, all of it this number.
fn filled(t: &Tensor, value: i64) -> Tensor {
    t.zeros_like() + value
}
fn grown(t: &Tensor, axis: isize) -> Tensor {
    if t.rank() == 0 { t.unsqueeze(0).expand([3]) } else { Tensor::cat(&[t.clone(), t.clone()], axis) }
}
/// Calls an entry with each wrong version of each of its inputs and of all, and its registered wrong calls.
pub fn of_entry(entry: &Entry, device: Device, lines: &mut NamedLines) {
    let dtype = if entry.dtypes.contains(&DType::F32) { DType::F32 } else { *entry.dtypes.first().unwrap_or(&DType::F32) };
    let random = Random::new(11);
    let right: Vec<Tensor> = entry
        .inputs
        .iter()
        .enumerate()
        .map(|(k, i)| lay(&i.draw(dtype, &mut random.part(k as u64)), "dense", device))
        .map(|t| if entry.order > 0 && t.dtype().is_ok_and(DType::is_float) { t.tracked() } else { t })
        .collect();
    let mut seen = |text: &str, case: &str, outputs: Vec<Tensor>| {
        for y in &outputs {
            if let Err(e) = download(y) {
                lines.look((&entry.name, text), !entry.inputs.is_empty(), case, &e);
            }
            if y.is_tracked()
                && let Err(e) = y.sum(..).backward()
            {
                lines.look((&entry.name, text), !entry.inputs.is_empty(), &format!("{case}, backward"), &e);
            }
        }
    };
    device.scoped(|| {
        for wrong in &entry.errors {
            seen(wrong.text, wrong.text, (wrong.call)(&right));
        }
        for (case, wrong) in WRONG {
            for which in 0..=right.len() {
                let x: Vec<Tensor> =
                    right.iter().enumerate().map(|(k, t)| if which == k || which == right.len() { wrong(t, k, device) } else { t.clone() }).collect();
                // What cannot be made so is no call of the function.
                if x.iter().all(|t| t.error().is_none()) {
                    seen(entry.text, case, entry.function.call(&x));
                }
            }
        }
    });
}
/// Every function of the registry.
pub fn lint(device: Device) -> NamedLines {
    let mut lines = NamedLines::default();
    entries().iter().for_each(|entry| of_entry(entry, device, &mut lines));
    lines
}
