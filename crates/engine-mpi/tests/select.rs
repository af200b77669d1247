//! Which library is taken, and what is said where none can be: without any MPI.
use adamant_engine_mpi::{
    AbiTable, LIBRARY_VARIABLE, LibraryCandidate, MpiAbi, MpiFamily, NUMBERS, Predefined, advice, candidates, conflict, launcher, present,
};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

fn variables<'v>(given: &'v [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'v {
    |name| given.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
}
fn listed(given: &[(&str, &str)]) -> Vec<String> {
    let text = |candidate: &LibraryCandidate| match candidate {
        LibraryCandidate::InProcess => "in process".to_string(),
        LibraryCandidate::Library(path) => path.display().to_string(),
    };
    candidates(&variables(given)).iter().map(text).collect()
}

#[test]
fn a_named_library_is_the_only_one() {
    assert_eq!(listed(&[(LIBRARY_VARIABLE, "/x/libmpi.so"), ("OMPI_COMM_WORLD_RANK", "0")]), ["/x/libmpi.so"]);
    assert!(listed(&[(LIBRARY_VARIABLE, "")]).len() > 1, "an empty name is none");
}
#[cfg(target_os = "linux")]
#[test]
fn the_launcher_decides_which_names_are_looked_for() {
    let any = ["libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi_abi.so", "libmpi.so"];
    let with = |first: &[&str]| -> Vec<String> { ["in process"].iter().chain(first).chain(&any).map(ToString::to_string).collect() };
    assert_eq!(listed(&[]), with(&["libmpi.so.40", "libmpi.so.12"]));
    assert_eq!(listed(&[("OMPI_COMM_WORLD_RANK", "1")]), with(&["libmpi.so.40"]));
    assert_eq!(listed(&[("PMI_RANK", "1"), ("HYDI_CONTROL_FD", "7")]), with(&["libmpi.so.12"]));
    // Slurm's own variables say nothing of whose MPI it is.
    assert_eq!(listed(&[("PMI_RANK", "1"), ("SLURM_PROCID", "1")]), with(&["libmpi.so.40", "libmpi.so.12"]));
}
#[cfg(target_os = "linux")]
#[test]
fn folders_that_the_launcher_or_an_environment_names_come_first() {
    let found = listed(&[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_LIBDIR_LOC", "/o/lib"), ("VIRTUAL_ENV", "/v"), ("CONDA_PREFIX", "")]);
    assert_eq!(found[..3], ["in process", "/o/lib/libmpi.so.40", "/o/lib/libmpi_abi.so.1"]);
    let at = |path: &str| found.iter().position(|one| one == path).unwrap();
    assert!(at("/o/lib/libmpi.so") < at("/v/lib/libmpi.so.40") && at("/v/lib/libmpi.so") < at("libmpi.so.40"));
    assert!(!found.iter().any(|path| path.starts_with("lib/")), "an empty variable names no folder: {found:?}");
}
#[test]
fn launchers_and_libraries_are_told_apart() {
    for (given, family) in [
        (&[][..], None),
        (&[("OMPI_COMM_WORLD_RANK", "0"), ("PMI_RANK", "0")], Some(MpiFamily::OpenMpi)),
        (&[("PMI_RANK", "0")], Some(MpiFamily::Mpich)),
        (&[("MPI_LOCALRANKID", "0"), ("SLURM_PROCID", "0")], Some(MpiFamily::Mpich)),
        (&[("PMI_RANK", "0"), ("SLURM_PROCID", "0")], None),
        (&[("PMIX_RANK", "0")], None),
    ] {
        assert_eq!(launcher(&variables(given)), family, "{given:?}");
    }
    for (told, family) in [
        ("Open MPI v4.1.4, package: Debian OpenMPI", Some(MpiFamily::OpenMpi)),
        ("MPICH Version:      5.0.2", Some(MpiFamily::Mpich)),
        ("Intel(R) MPI Library 2021.9", Some(MpiFamily::Mpich)),
        ("MVAPICH2 Version : 2.3.7", Some(MpiFamily::Mpich)),
        ("Platform MPI 9", None),
    ] {
        assert_eq!(MpiFamily::of(told), family, "{told}");
    }
}
#[test]
fn a_library_of_one_mpi_under_the_launcher_of_another_is_refused() {
    use MpiFamily::{Mpich, OpenMpi};
    for (launched, library, refused) in [
        (Some(OpenMpi), Some(Mpich), true),
        (Some(Mpich), Some(OpenMpi), true),
        (Some(OpenMpi), Some(OpenMpi), false),
        (None, Some(Mpich), false),
        (Some(Mpich), None, false),
    ] {
        let told = conflict(launched, library, "/x/libmpi.so");
        assert_eq!(told.is_some(), refused, "{launched:?} {library:?}");
        assert!(told.is_none_or(|told| told.contains("two MPIs") && told.contains("/x/libmpi.so") && told.contains(LIBRARY_VARIABLE)));
    }
    assert!(advice(Some(Mpich)).contains("pip install mpich") && !advice(Some(Mpich)).contains("openmpi"));
    assert!(advice(None).contains("openmpi-bin"));
}
#[test]
fn the_abi_follows_from_what_the_library_has() {
    for (version, symbols, told, abi) in [
        (Some(1), false, "MPICH Version: 5.0.2", Some(MpiAbi::Standard)),
        // Open MPI's library of the standard ABI stands on one that has its symbols.
        (Some(1), true, "Open MPI v6.0.0", Some(MpiAbi::Standard)),
        // MPICH's own ABI, of a version that knows the question.
        (Some(-1), false, "MPICH Version: 5.0.2", Some(MpiAbi::Mpich)),
        (None, false, "MPICH Version: 3.4", Some(MpiAbi::Mpich)),
        (None, true, "Open MPI v4.1.4", Some(MpiAbi::OpenMpi)),
        (Some(-1), true, "Open MPI v6.0.0", Some(MpiAbi::OpenMpi)),
        (Some(2), false, "MPICH Version: 9", None),
        (None, false, "Platform MPI 9", None),
    ] {
        assert_eq!(MpiAbi::of(version, symbols, told).ok(), abi, "{version:?} {symbols} {told}");
    }
}
#[test]
fn the_tables_say_what_the_handles_themselves_say() {
    let value = |handle: Predefined| match handle {
        Predefined::Value(value) => value,
        Predefined::Symbol(symbol) => panic!("{symbol} is no value"),
    };
    let tables: Vec<&AbiTable> = [MpiAbi::OpenMpi, MpiAbi::Mpich, MpiAbi::Standard].into_iter().map(MpiAbi::table).collect();
    for dtype in NUMBERS {
        // A basic type of MPICH has its size in the second byte.
        assert_eq!((value(tables[1].number(dtype).unwrap()) >> 8) & 0xff, dtype.size(), "MPICH's {dtype}");
        // A type of fixed size of the standard has the logarithm of its size in bits 3 to 5.
        let handle = value(tables[2].number(dtype).unwrap());
        assert!(dtype.is_float() || 1 << ((handle >> 3) & 7) == dtype.size(), "the standard's {dtype}");
        // Of integers, both tell the sign: the standard in the lowest bit, MPICH by two rows of four.
        if !dtype.is_float() {
            let (unsigned, log) = (usize::from(dtype.to_string().starts_with('u')), dtype.size().trailing_zeros() as usize);
            assert_eq!(handle & 1, unsigned, "the standard's {dtype}");
            assert_eq!(value(tables[1].number(dtype).unwrap()) & 0xff, 0x37 + log + 4 * unsigned, "MPICH's {dtype}");
        }
        assert_eq!(handle & !0x3f, if dtype.is_float() { 0x200 } else { 0x240 }, "the standard's {dtype}");
        let expected = match dtype.to_string().as_str() {
            "f32" => "ompi_mpi_float".to_string(),
            "f64" => "ompi_mpi_double".to_string(),
            int => format!("ompi_mpi_{}int{}_t", if int.starts_with('u') { "u" } else { "" }, &int[1..]),
        };
        assert!(matches!(tables[0].number(dtype), Some(Predefined::Symbol(symbol)) if symbol == expected), "Open MPI's {dtype}");
    }
    for table in tables {
        assert_eq!(table.number(adamant_ir::DType::BF16), None);
        assert!(table.source_at * 4 + 4 <= table.status_bytes && table.status_bytes <= 32, "{}", table.name);
        assert!(table.serialized < table.multiple);
    }
}

/// What `present` says in a process of its own with these variables.
fn told(given: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "what_is_present", "--nocapture"]).env("ADAMANT_ASK_PRESENT", "1").envs(given.iter().copied());
    let told = String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned();
    told.lines().find_map(|line| line.split_once("PRESENT: ")).map(|(_, what)| what.to_string()).unwrap()
}
/// No test of its own: what [`told`] asks.
#[test]
fn what_is_present() {
    if std::env::var_os("ADAMANT_ASK_PRESENT").is_some() {
        println!("\nPRESENT: {:?}", present());
    }
}
/// A library that has some functions of MPI, made by the compiler that this was made by.
fn library(folder: &Path, name: &str, functions: &str) -> PathBuf {
    let (source, made) = (folder.join(format!("{name}.rs")), folder.join(format!("lib{name}.so")));
    std::fs::write(&source, functions).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let done = Command::new(rustc).args(["--edition", "2024", "--crate-type", "cdylib", "-o"]).args([&made, &source]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    made
}
fn version(told: &str) -> String {
    format!(
        "#[unsafe(no_mangle)] pub extern \"C\" fn MPI_Get_library_version(text: *mut u8, n: *mut i32) -> i32 {{
            let told = \"{told}\";
            unsafe {{ std::ptr::copy_nonoverlapping(told.as_ptr(), text, told.len()); *n = told.len() as i32; }}
            0
        }}"
    )
}
#[cfg(target_os = "linux")]
#[test]
fn what_is_absent_is_told_with_what_was_looked_for_and_what_to_install() {
    let folder = std::env::temp_dir().join(format!("adamant-mpi-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let some = library(&folder, "some", &version("MPICH Version: 4.2"));
    let other = library(&folder, "other", &version("Some MPI 1.0"));
    let newer = library(
        &folder,
        "newer",
        &(version("MPICH Version: 9")
            + "#[unsafe(no_mangle)] pub extern \"C\" fn MPI_Abi_get_version(a: *mut i32, b: *mut i32) -> i32 { unsafe { *a = 2; *b = 0; } 0 }"),
    );
    let text = |path: &Path| path.display().to_string();
    for (given, expected) in [
        (vec![(LIBRARY_VARIABLE, "/nowhere/libmpi.so".to_string())], vec!["EngineAbsent", "/nowhere/libmpi.so (not found)", "openmpi-bin"]),
        (vec![(LIBRARY_VARIABLE, "libc.so.6".into())], vec!["EngineAbsent", "libc.so.6 (it has no MPI_Get_library_version)"]),
        (vec![(LIBRARY_VARIABLE, text(&some))], vec!["EngineAbsent", "it lacks MPI_Init_thread, MPI_Initialized", "MPI_Iallreduce"]),
        (vec![(LIBRARY_VARIABLE, text(&other))], vec!["EngineAbsent", "none of the three binary interfaces", "Some MPI 1.0"]),
        (vec![(LIBRARY_VARIABLE, text(&newer))], vec!["EngineAbsent", "version 2 of the standard's"]),
        (vec![(LIBRARY_VARIABLE, text(&some)), ("OMPI_COMM_WORLD_RANK", "0".into())], vec!["EngineAbsent", "two MPIs", "Open MPI's", "MPICH's"]),
    ] {
        let given: Vec<(&str, &str)> = given.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let told = told(&given);
        expected.iter().for_each(|word| assert!(told.contains(word), "{given:?}: no `{word}` in {told}"));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
