//! The script, with programs in its pack that go wrong in every way; what it writes is judged as on a machine with a card.
use super::*;
use lines::{FigureLine, FigureTarget, FigureVerdict};
use std::io::Write;

/// Says what is asked of a stage.
fn said(stage: &str) -> String {
    let good = |asked: &stages::AskedFigure| {
        let figure = match asked.target {
            FigureTarget::Told => 1.0,
            FigureTarget::AtLeast(x) | FigureTarget::AtMost(x) => x,
        };
        FigureLine::of(asked.name, figure, asked.unit, asked.target).to_string()
    };
    stages::named(stage).unwrap().figures.iter().map(good).map(|line| line + "\n").collect()
}
/// A pack whose `xtask` is a shell script; `plant` is what it does where it is asked for the figures of gemm.
fn pack_of(folder: &Path, stages: &str, plant: &str) {
    let gz = |name: &str, text: String| {
        fs::create_dir_all(folder.join("bin")).unwrap();
        let mut encoder = GzEncoder::new(fs::File::create(folder.join(format!("bin/{name}.gz"))).unwrap(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap();
    };
    for stage in ["first", "gemm", "tf32"] {
        fs::write(folder.join(format!("said.{stage}")), said(stage)).unwrap();
    }
    let at = folder.display();
    let asked = format!(
        "#!/bin/sh\ncase \"$*\" in\n*'gpu-pack probe'*) head -n 1 {at}/said.first; test ! -f {at}/absent || {{ echo no libcuda >&2; exit 9; }} ;;\n\
         *'figures gemm'*) {} ;;\n*'gpu-pack tf32'*) cat {at}/said.tf32 ;;\n*'bench peers'*) test ! -f {at}/peers || exit $(cat {at}/peers) ;;\nesac\n",
        plant.replace("SAID", &format!("{at}/said.gemm"))
    );
    gz("xtask", asked);
    gz("gpt2", "#!/bin/sh\n".into());
    fs::write(folder.join("run.sh"), SCRIPT.replace("@STAGES@", stages)).unwrap();
}
/// Runs the script, and gives its code and what it wrote.
fn ran(folder: &Path, more: &[&str]) -> (i32, String) {
    let mut command = Command::new("bash");
    // Without a Python nobody looks for PyTorch.
    command.arg(folder.join("run.sh")).args(more).env("ADAMANT_CUDA_PATH", folder).env_remove("CUDA_HOME");
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    (status.code().unwrap_or(-1), fs::read_to_string(folder.join("results/results.txt")).unwrap_or_default())
}
/// The figures of a stage that passed, that failed and that were not run.
fn counts(text: &str, stage: &str) -> [usize; 3] {
    let names: Vec<&str> = stages::named(stage).unwrap().figures.iter().map(|f| f.name).collect();
    let lines = judged::judge(text).lines.into_iter().filter(|line| names.contains(&line.name.as_str())).collect();
    judged::JudgedPack { lines }.counts()
}
fn planted(plant: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    pack_of(folder.path(), "gemm:2 tf32:20", plant);
    ran(folder.path(), &[]).1
}

#[test]
fn a_script_that_no_shell_reads() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("run.sh");
    fs::write(&script, written()).unwrap();
    assert!(Command::new("bash").arg("-n").arg(&script).status().unwrap().success());
    assert!(written().contains("stages=\"first:60 gemm:45 "), "{}", stages::written());
    // Each stage of the table has its function, and its words are those of the chore.
    for stage in stages::STAGES {
        assert!(SCRIPT.contains(&format!("stage_{}()", stage.name)), "{}", stage.name);
    }
}
#[test]
fn a_stage_in_which_nothing_went_wrong() {
    let text = planted("cat SAID");
    assert_eq!(counts(&text, "gemm"), [7, 0, 0], "{text}");
    assert_eq!(counts(&text, "tf32"), [3, 0, 0], "{text}");
    // The others were left out.
    assert_eq!(counts(&text, "small"), [0, 0, 4], "{text}");
}
/// None of its figures counts as passed, and the stage behind it runs all the same.
#[test]
fn a_stage_that_goes_wrong_and_counts() {
    for (what, plant) in [
        ("it ends late", "cat SAID; sleep 30"),
        ("it ends late and hears no signal", "trap '' TERM; cat SAID; sleep 30 & sleep 30"),
        ("it crashes behind its figures", "cat SAID; kill -SEGV $$"),
        ("it crashes before them", "kill -KILL $$; cat SAID"),
        ("it ends with a code", "cat SAID; exit 3"),
        ("its device is lost", "cat SAID; exit 9"),
        ("it prints FAILED", "sed s/passed/FAILED/ SAID"),
        ("it prints nothing", ":"),
        ("it prints something else", "echo all is well; echo passed"),
        ("its lines are cut", "sed 's/ passed//' SAID"),
    ] {
        let text = planted(plant);
        assert_eq!(counts(&text, "gemm"), [0, 7, 0], "{what}: {text}");
        assert_eq!(counts(&text, "tf32"), [3, 0, 0], "{what}: {text}");
        assert_eq!(text.contains("gemm ends, code 124"), what.contains("late"), "{what}: {text}");
    }
    // In the middle of a line: what stands before it is said.
    let text = planted("printf '%s' 'gemm_right 0 wro'");
    assert_eq!(counts(&text, "gemm"), [0, 7, 0], "{text}");
    assert_eq!(counts(&text, "tf32"), [3, 0, 0], "{text}");
    let text = planted("sed 's/passed/not run (no PyTorch)/' SAID; exit 11");
    assert_eq!(counts(&text, "gemm"), [0, 0, 7], "{text}");
}
/// What runs before the figures of a stage are made of it.
#[test]
fn a_measurement_that_crashes_before_its_figures() {
    let folder = tempfile::tempdir().unwrap();
    pack_of(folder.path(), "gemm:5", "cat SAID");
    fs::write(folder.path().join("peers"), "139").unwrap();
    let (_, text) = ran(folder.path(), &[]);
    assert_eq!(counts(&text, "gemm"), [0, 7, 0], "{text}");
}
#[test]
fn a_machine_without_a_card_that_has_figures() {
    let folder = tempfile::tempdir().unwrap();
    pack_of(folder.path(), "gemm:5 tf32:5", "cat SAID");
    fs::write(folder.path().join("absent"), "").unwrap();
    let (code, text) = ran(folder.path(), &[]);
    assert_eq!((code, counts(&text, "gemm"), counts(&text, "tf32")), (9, [0, 0, 7], [0, 0, 3]), "{text}");
}
#[test]
fn a_card_that_is_played_and_has_a_speed() {
    let folder = tempfile::tempdir().unwrap();
    pack_of(folder.path(), "gemm:5 tf32:5", "cat SAID");
    let (_, text) = ran(folder.path(), &["--emulated", "--factor", "2"]);
    assert!(text.starts_with("== pack emulated on cuda:0 (sm_90)") && text.contains("limit 10 s"), "{text}");
    assert_eq!(counts(&text, "gemm"), [1, 6, 0], "{text}");
    assert_eq!(counts(&text, "tf32"), [3, 0, 0], "{text}");
}
#[test]
fn words_that_the_script_does_not_know_and_stages_that_are_named() {
    let folder = tempfile::tempdir().unwrap();
    pack_of(folder.path(), "gemm:5 tf32:5", "cat SAID");
    for wrong in [&["--nothing"][..], &["--factor", "0"], &["--factor", "much"], &["--device"]] {
        assert_eq!(ran(folder.path(), wrong).0, 2, "{wrong:?}");
    }
    let (_, text) = ran(folder.path(), &["--only", "tf32"]);
    assert_eq!((counts(&text, "gemm"), counts(&text, "tf32")), ([0, 0, 7], [3, 0, 0]), "{text}");
    fs::write(folder.path().join("bin/gpt2.gz"), "no gzip").unwrap();
    assert_eq!(ran(folder.path(), &[]).0, 4);
}
#[test]
fn a_folder_that_is_no_pack_or_has_no_compiler() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.txt"), "").unwrap();
    let options =
        |with_nvrtc: Option<PathBuf>| Options { out: Some(folder.path().to_path_buf()), profile: "dev".into(), with_nvrtc, emulated_run: false, action: None };
    assert_eq!(run(&options(None)), Exit::Usage);
    assert_eq!(run(&options(Some(folder.path().to_path_buf()))), Exit::Unreadable);
    assert!(folder.path().join("thesis.txt").is_file());
    for name in ["libnvrtc.so.13", "libnvrtc-builtins.so.13.0", "libnvrtc-builtins.alt.so.13.0", "libother.so"] {
        fs::create_dir_all(folder.path().join("lib")).unwrap();
        fs::write(folder.path().join("lib").join(name), "").unwrap();
    }
    assert_eq!(compiler(folder.path()).unwrap().len(), 2);
    assert_eq!(judge(&folder.path().join("results.txt")), Exit::Unreadable);
}
#[test]
fn results_of_another_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.txt");
    let of = |text: &str| {
        fs::write(&path, text).unwrap();
        judge(&path)
    };
    assert_eq!(of("== pack on cuda:0\n"), Exit::Skipped);
    assert_eq!(of("== pack on cuda:0\n== stage tf32 begins, limit 10 s\n== stage tf32 ends, code 0, after 1 s\n"), Exit::Failed);
    assert!(matches!(FigureLine::parse("a 1 x - passed").unwrap().verdict, FigureVerdict::Passed));
}
