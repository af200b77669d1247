//! Whole kernels through the real compiler, and calls of the driver: what is right is right and raises no alarm under any seed, and
//! each planted fault is caught under every one that is tried, and named.
mod rig;

use adamant_cuda_emulator::{
    Emulator, Options,
    machine::FindingKind,
    plants::{Caught, EmulatorPlant, plants},
};
use rig::{Arg, Rig, compile};
use std::sync::Mutex;

/// Seeds under which a program without a fault runs.
const SEEDS: u64 = 6;
/// Faults of the driver's callers share one emulator.
static ALONE: Mutex<()> = Mutex::new(());

/// What is planted, and what can be run here.
fn runnable() -> Vec<EmulatorPlant> {
    Emulator::install(Options::default()).unwrap();
    let has_compiler = to_ptx("sm_75")(r#"extern "C" __global__ void f() {}"#).is_ok();
    plants().into_iter().filter(|p| has_compiler || !p.has_kernel()).collect()
}
fn to_ptx(arch: &str) -> impl Fn(&str) -> Result<String, String> {
    let option = format!("-arch={arch}");
    // The compiler's own cache asks the driver for more than the stand-in has.
    move |text| compile(text, &[&option, "--no-cache"]).ok_or_else(|| "no compiler".to_string())
}

#[test]
fn right_programs_are_right_under_every_seed() {
    let _alone = ALONE.lock().unwrap();
    // A kernel without its faults is the same for all of them.
    let mut met = std::collections::BTreeSet::new();
    for plant in runnable() {
        let kernel = plant.name.rsplit_once(" (").map(|(_, kernel)| kernel.to_string());
        let archs: &[&str] = if kernel.is_some() { &["sm_80", "sm_90a", "sm_120"] } else { &["sm_90"] };
        if !met.insert(kernel.unwrap_or(plant.name.clone())) {
            continue;
        }
        for arch in archs {
            for seed in 0..SEEDS {
                let end = plant.run(&to_ptx(arch), seed, false).unwrap();
                end.silent().unwrap_or_else(|alarm| panic!("{}, {arch}, seed {seed}: a false alarm: {alarm}", plant.name));
            }
        }
    }
}

#[test]
fn planted_faults_are_caught_under_every_seed() {
    let _alone = ALONE.lock().unwrap();
    for plant in runnable() {
        for seed in 0..5 {
            let end = plant.run(&to_ptx("sm_90"), seed, true).unwrap();
            let (by, place) =
                end.caught(plant.caught).unwrap_or_else(|e| panic!("{}, seed {seed}: {:?} was expected, and there is: {e}", plant.name, plant.caught));
            assert!(!place.is_empty() || plant.caught == Caught::WrongResult, "{}: {by}", plant.name);
        }
    }
}

#[test]
fn an_end_is_caught_only_by_what_it_must_be_caught_by() {
    let _alone = ALONE.lock().unwrap();
    let all = runnable();
    let end = |name: &str| all.iter().find(|p| p.name == name).unwrap().run(&to_ptx("sm_90"), 1, true).unwrap();
    let (event, answer) = (end("missing event between streams"), end("stale executable graph"));
    assert!(event.caught(Caught::Found(&[FindingKind::MissingEvent])).is_ok());
    assert!(event.caught(Caught::Found(&[FindingKind::UseAfterFree])).is_err());
    assert!(event.caught(Caught::WrongResult).is_err(), "what was found is no silent wrong result");
    assert!(answer.caught(Caught::Answered("cuGraphLaunch", 400)).is_ok());
    assert!(answer.caught(Caught::Answered("cuGraphLaunch", 1)).is_err() && answer.caught(Caught::Answered("cuMemAlloc_v2", 400)).is_err());
    assert!(event.silent().is_err() && answer.silent().is_err());
}

#[test]
fn memory_that_was_freed_and_outputs_that_nobody_wrote() {
    let text = r#"
extern "C" __global__ void half_of_it(float* o, int n) { int i = threadIdx.x; if (2 * i < n) o[2 * i] = 1.f; }
extern "C" __global__ void sum_up(float* o, const float* x, int n) { float z = 0; for (int i = 0; i < n; i++) z += x[i]; *o = z; }"#;
    let Some(ptx) = compile(text, &["-arch=sm_90a", "--no-cache"]) else { return };
    for seed in 0..5 {
        let mut rig = Rig::new(&ptx);
        rig.conduct.seed = seed;
        let (o, x) = (rig.empty::<f32>(1), rig.empty::<f32>(64));
        rig.go("half_of_it", 1, 32, &[Arg::P(x), Arg::I(64)]);
        let finding = rig.launch("sum_up", [1; 3], [1; 3], 0, &[Arg::P(o), Arg::P(x), Arg::I(64)]).unwrap_err();
        assert_eq!((finding.kind, finding.address), (FindingKind::ReadBeforeWritten, Some(x + 4)), "{finding}");
        rig.memory.free(x).unwrap();
        let finding = rig.launch("sum_up", [1; 3], [1; 3], 0, &[Arg::P(o), Arg::P(x), Arg::I(64)]).unwrap_err();
        assert_eq!((finding.kind, finding.address), (FindingKind::UseAfterFree, Some(x)), "{finding}");
    }
}

#[test]
fn launches_that_do_not_fit() {
    let text = r#"extern "C" __global__ void __launch_bounds__(64) f(float* o, int n) { o[threadIdx.x] = n; }"#;
    let Some(rig) = Rig::of(text, &["-arch=sm_90a", "--no-cache"]) else { return };
    let o = rig.empty::<f32>(64);
    let args = [Arg::P(o), Arg::I(1)];
    let kind = |kernel, grid, block, shared, args: &[Arg]| rig.launch(kernel, grid, block, shared, args).unwrap_err().kind;
    assert_eq!(kind("g", [1; 3], [64, 1, 1], 0, &args), FindingKind::BadParameter);
    assert_eq!(kind("f", [0, 1, 1], [64, 1, 1], 0, &args), FindingKind::BadParameter);
    assert_eq!(kind("f", [1; 3], [65, 1, 1], 0, &args), FindingKind::BadParameter);
    assert_eq!(kind("f", [u32::MAX; 3], [64, 1, 1], 0, &args), FindingKind::BadParameter);
    assert_eq!(kind("f", [1; 3], [64, 1, 1], 1 << 20, &args), FindingKind::BadParameter);
    assert_eq!(kind("f", [1; 3], [64, 1, 1], 0, &args[..1]), FindingKind::BadParameter);
    rig.go("f", 1, 64, &args);
}
