//! A slice of `cargo xtask torture steps`, and that its judge can fail.
use adamant_conformance::{
    lines, plain,
    registry::entries,
    torture::{
        broken,
        endings::{self, First},
        steps::{self, Judge},
    },
};
use adamant_core::{Device, Error, ErrorKind, Tensor};

fn devices() -> [Device; 2] {
    [plain::device(2048, usize::MAX), Device::reference()]
}

#[test]
fn a_step_that_panics_or_fails_leaves_something_behind() {
    for device in devices() {
        let wrong = steps::run(device, 0, 120, 4, Judge::Right);
        assert!(wrong.is_empty(), "{device}: {wrong:#?}");
    }
    let places: usize = (0..120).map(steps::places).sum();
    assert!(places > 1000, "only {places} places");
}
#[test]
fn the_judge_of_steps_overlooks_writes_that_stay() {
    for judge in [Judge::KeepsInnerWrites, Judge::KeepsOuterWrites] {
        let wrong = steps::run(plain::device(2048, usize::MAX), 0, 120, 2, judge);
        assert!(wrong.len() > 10, "{judge:?}: {} of 120 were found", wrong.len());
    }
}
#[test]
fn a_backend_that_panics_takes_cells_or_the_device_with_it() {
    let cases: Vec<Result<bool, String>> = (0..400).map(broken::case).collect();
    let wrong: Vec<&String> = cases.iter().filter_map(|c| c.as_ref().err()).collect();
    assert!(wrong.is_empty(), "{} of 400: {:#?}", wrong.len(), &wrong[..wrong.len().min(8)]);
    let burnt = cases.iter().filter(|c| **c == Ok(true)).count();
    assert!(burnt > 100, "only {burnt} panics were reached");
}
#[test]
fn what_a_thread_local_asks_for_at_its_end_ends_the_process() {
    for device in devices() {
        let asked = [First::Programs, First::Librarys, First::Some].map(|first| (first, endings::run(device, first).unwrap()));
        for (first, asked) in &asked {
            assert!(asked.panicked.is_empty(), "{device}, {first:?}: {:?}", asked.panicked);
            assert!(asked.given + asked.refused > 800, "{device}, {first:?}: {} given, {} refused", asked.given, asked.refused);
        }
        // The library's are gone there, and it says so.
        assert!(asked.iter().any(|(_, asked)| asked.refused > 500), "{device}: nothing was refused");
        assert!(asked.iter().any(|(_, asked)| asked.refused == 0), "{device}: all was refused");
    }
}
#[test]
fn an_error_names_a_line_of_the_library() {
    for device in devices() {
        let lines = lines::lint(device);
        assert!(lines.provoked > 1000, "only {} errors", lines.provoked);
        assert!(lines.inside.is_empty(), "{device}: of {} errors, those of {} lines: {:#?}", lines.provoked, lines.inside.len(), lines.inside);
    }
}
/// A function of core that hides its caller: it names the line in core where its op stands.
#[test]
fn the_lint_overlooks_a_line_of_the_library() {
    let planted = |x: &[Tensor]| vec![std::iter::once(&x[0]).map(Tensor::t).next().unwrap_or_else(|| x[0].clone())];
    let mut entry = entries().into_iter().find(|e| e.name == "Tensor::t").unwrap();
    entry.function = adamant_conformance::registry::Function::Call(planted);
    let mut lines = lines::NamedLines::default();
    lines::of_entry(&entry, Device::reference(), &mut lines);
    assert!(!lines.inside.is_empty(), "{} errors, and none of a line of the library", lines.provoked);
    let mut lines = lines::NamedLines::default();
    lines.look(("here", ""), false, "", &Error::new("here", ErrorKind::Capturing));
    assert!(lines.inside.is_empty() && lines.provoked == 1);
}
