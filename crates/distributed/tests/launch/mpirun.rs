//! Ranks that `mpirun` starts: its command line, its lines, and what becomes of a failure.
use super::*;
use adamant_distributed::launch::mpirun::{MpirunKind, ended, find_mpirun, mpirun_arguments, untagged};

#[test]
fn an_mpirun_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = |plan: &mut LaunchPlan| plan.environment = vec![("PATH".into(), folder.path().into())];
    let mut plan = LaunchPlan::new(2, "/bin/sh");
    plan.engine = Some("mpi".into());
    path(&mut plan);
    let error = job_with(&plan, &LaunchStop::new(), 20).0.unwrap_err();
    assert_eq!(error.exit_code(), 9);
    let text = error.to_string();
    assert!(text.contains("`mpirun` is not there: looked for mpirun and mpiexec in PATH (") && text.contains("install openmpi-bin"), "{text}");
    // Another program of that name.
    fake(folder.path(), "echo something else");
    let text = job_with(&plan, &LaunchStop::new(), 20).0.unwrap_err().to_string();
    assert!(text.contains("is none that is known: it says `something else`"), "{text}");
}
fn fake(folder: &Path, text: &str) {
    let at = folder.join("mpirun");
    std::fs::write(&at, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o755)).unwrap();
}
#[test]
fn an_mpirun_whose_lines_and_code_get_lost() {
    // One of ours, that is as Open MPI 4 to look at.
    let folder = tempfile::tempdir().unwrap();
    fake(
        folder.path(),
        "if [ \"$1\" = --version ]; then echo 'mpirun (Open MPI) 4.1.4'; exit; fi
echo \"$@\"; echo \"rank=$RANK epoch=$ADAMANT_EPOCH engine=$ADAMANT_ENGINE\"; echo '[1,1]<stdout>:hello'; echo '[1,0]<stderr>:word' >&2; echo 'mpirun has failed' >&2; exit 6",
    );
    let mut plan = LaunchPlan::new(3, "/bin/sh");
    (plan.engine, plan.max_restarts, plan.restart_delay) = (Some("mpi".into()), 1, Duration::from_millis(1));
    plan.environment = vec![("PATH".into(), format!("{}:/usr/bin:/bin", folder.path().display()).into())];
    let (ended, kept) = job(&plan);
    assert_eq!((ended.code, ended.starts), (6, 2));
    assert_eq!(ended.cause, Some(FirstCause { rank: None, exit: RankExit::Code(6), words: vec!["mpirun has failed".into()] }));
    assert_eq!(kept.of(1), ["hello", "hello"]);
    let lines = kept.lines.lock();
    let own: Vec<String> = lines
        .iter()
        .filter(|(rank, stream, _)| rank.is_none() && *stream == RankStream::Out)
        .map(|(_, _, line)| String::from_utf8_lossy(line).into_owned())
        .collect();
    assert_eq!(own[1], "rank= epoch=0 engine=mpi");
    assert_eq!(own[3], "rank= epoch=1 engine=mpi");
    assert!(
        own[0].starts_with("-H localhost:3 -n 3 --bind-to none --enable-recovery --tag-output -x ")
            && own[0].contains(" -x ADAMANT_EPOCH ")
            && own[0].ends_with(" /bin/sh"),
        "{own:?}"
    );
}
#[test]
fn command_lines_of_mpirun() {
    let of = |kind, hosts: &[(&str, Option<usize>)], ranks, is_allotted| {
        let mut plan = LaunchPlan::new(ranks, "prog");
        plan.arguments = vec!["a b".into()];
        plan.hosts = hosts.iter().map(|(host, ranks)| HostSlots { host: host.to_string(), ranks: *ranks }).collect();
        let arguments = mpirun_arguments(kind, &plan, Path::new("/p/prog"), &["X"], is_allotted)?;
        let words: Vec<String> = arguments.into_iter().map(|word| word.into_string().unwrap()).collect();
        let at = words.iter().position(|word| word == "sh").unwrap();
        assert_eq!((words[at + 1].as_str(), &words[at + 3..]), ("-c", &["/p/prog".to_string(), "a b".into()][..]));
        Ok::<_, LaunchError>(words[..at].join(" "))
    };
    let four = "-n 4 --bind-to none --enable-recovery --tag-output -x X";
    let five = "-n 4 --bind-to none --with-ft ulfm --output tag -x X";
    let two = [("a", None), ("b", None)];
    for (kind, hosts, ranks, is_allotted, want) in [
        (MpirunKind::OpenMpi(4), &[][..], 4, false, format!("-H localhost:4 {four}")),
        (MpirunKind::OpenMpi(4), &[], 4, true, four.to_string()),
        (MpirunKind::OpenMpi(4), &two, 4, false, format!("-H a:2,b:2 {four}")),
        (MpirunKind::OpenMpi(5), &two, 4, true, format!("-H a:2,b:2 {five}")),
        (MpirunKind::Hydra, &[("a", Some(3)), ("b", None), ("c", None)], 8, false, "-hosts a:3,b:3,c:2 -n 8 -disable-auto-cleanup -prepend-rank".into()),
        (MpirunKind::Hydra, &[], 2, false, "-n 2 -disable-auto-cleanup -prepend-rank".into()),
    ] {
        assert_eq!(of(kind, hosts, ranks, is_allotted).unwrap(), want);
    }
    let wrong = |hosts, ranks| of(MpirunKind::Hydra, hosts, ranks, false).unwrap_err().to_string();
    assert_eq!(wrong(&[("a", Some(3)), ("b", Some(2))], 4), "the hosts get 5 ranks, but the job has 4");
    assert_eq!(wrong(&two, 1), "1 ranks are too few for these 2 hosts");
    for (version, want) in [
        ("mpirun (Open MPI) 4.1.4\n", Some(MpirunKind::OpenMpi(4))),
        ("mpirun (Open MPI) 5.0.11", Some(MpirunKind::OpenMpi(5))),
        ("HYDRA build details:\n    Version: 5.0.2", Some(MpirunKind::Hydra)),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.9", Some(MpirunKind::Hydra)),
        ("mpirun (Open MPI) x", None),
        ("GNU coreutils", None),
    ] {
        assert_eq!(MpirunKind::parse(version), want, "{version}");
    }
    for (text, want) in [
        ("a", Some(("a", None))),
        ("n-1.x_y:12", Some(("n-1.x_y", Some(12)))),
        ("", None),
        ("a:0", None),
        ("a:b", None),
        ("-x", None),
        ("a b", None),
        ("a;b:1", None),
    ] {
        assert_eq!(HostSlots::parse(text), want.map(|(host, ranks)| HostSlots { host: host.into(), ranks }), "{text}");
    }
}
#[test]
fn a_line_of_mpirun_that_is_another_ranks() {
    let (four, five, hydra) = (MpirunKind::OpenMpi(4), MpirunKind::OpenMpi(5), MpirunKind::Hydra);
    for (kind, line, want) in [
        (four, "[1,3]<stdout>:text", (Some(3), "text")),
        (four, "[4093,12]<stderr>: text", (Some(12), " text")),
        (four, "[1,3]<stdin>:text", (None, "[1,3]<stdin>:text")),
        (four, "[3] text", (None, "[3] text")),
        (five, "[1,0]<stdout>:  text", (Some(0), " text")),
        (five, "[1,0]<stdout>:", (Some(0), "")),
        (hydra, "[3] text", (Some(3), "text")),
        (hydra, "[x] text", (None, "[x] text")),
        (hydra, "[3]text", (None, "[3]text")),
        (hydra, "[1,3]<stdout>:text", (None, "[1,3]<stdout>:text")),
        (four, "", (None, "")),
        (four, "[", (None, "[")),
    ] {
        assert_eq!(untagged(kind, line.as_bytes()), (want.0, want.1.as_bytes()), "{kind:?} {line}");
    }
}
#[test]
fn an_end_of_a_rank_that_is_taken_for_a_line_or_another_end() {
    let line = |code: &str| format!("adamant launch: this rank ended with {code}");
    for (code, want) in [
        ("3", Some(RankExit::Code(3))),
        ("128", Some(RankExit::Code(128))),
        ("137", Some(RankExit::Signal(9))),
        ("143", Some(RankExit::Signal(15))),
        ("255", Some(RankExit::Code(255))),
        ("0", None),
        ("256", None),
        ("-1", None),
        ("3 ranks", None),
    ] {
        assert_eq!(ended(line(code).as_bytes()), want, "{code}");
    }
    assert_eq!((ended(b""), ended(format!(" {}", line("3")).as_bytes())), (None, None));
}
/// Those that are installed here: of the system, and in folders that ADAMANT_TEST_MPIRUNS names.
fn mpiruns() -> Vec<(std::ffi::OsString, MpirunKind)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = std::env::var_os("ADAMANT_TEST_MPIRUNS").unwrap_or_default();
    let mut folders: Vec<_> = std::env::split_paths(&more).collect();
    folders.extend(find_mpirun(Some(&path)).ok().and_then(|(at, _)| Some(at.parent()?.to_path_buf())));
    let with = |folder: &Path| std::env::join_paths([folder, Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    let found: Vec<_> = folders.iter().map(|folder| with(folder)).filter_map(|path| find_mpirun(Some(&path)).ok().map(|(_, kind)| (path, kind))).collect();
    if found.is_empty() {
        eprintln!("SKIPPED: no mpirun is installed: install openmpi-bin");
    }
    found
}
#[test]
fn ranks_of_an_mpirun_that_is_installed_outlive_a_launcher_that_is_killed() {
    for (path, kind) in mpiruns() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "orphans::launcher", "--nocapture"]).stdout(Stdio::piped()).stdin(Stdio::null());
        command.env("ADAMANT_TEST_LAUNCHER", "echo pid $$; trap '' TERM; echo ready; n=0; while [ $n -lt 600 ]; do n=$((n+1)); sleep 0.1; done");
        command.envs([("ADAMANT_TEST_ENGINE", "mpi"), ("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]).env("PATH", &path);
        let mut launcher = orphans::Killed(command.spawn().unwrap());
        let (mut ranks, mut ready) = (Vec::new(), 0);
        let mut lines = BufReader::new(launcher.0.stdout.take().unwrap()).lines();
        while ready < 3 {
            let line = lines.next().unwrap().unwrap();
            ranks.extend(line.split_once(" pid ").map(|(_, pid)| pid.parse::<u32>().unwrap()));
            ready += usize::from(line.ends_with("ready"));
        }
        assert!(ranks.len() == 3 && ranks.iter().all(|rank| is_alive(*rank)), "{kind:?} {ranks:?}");
        launcher.0.kill().unwrap();
        within(15.0, &format!("{kind:?}: ranks {ranks:?} are gone"), || !ranks.iter().any(|rank| is_alive(*rank)));
    }
}
#[test]
fn what_an_mpirun_that_is_installed_makes_of_a_failure() {
    for (path, kind) in mpiruns() {
        let set = [("PATH", path), ("OMPI_ALLOW_RUN_AS_ROOT", "1".into()), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1".into())];
        let environment = set.map(|(name, value)| (name.into(), value)).to_vec();
        let run = |text: &str| {
            let mut plan = script(3, text);
            (plan.engine, plan.environment, plan.grace) = (Some("mpi".into()), environment.clone(), Duration::from_secs(1));
            plan.timeout = Some(Duration::from_secs(77));
            job(&plan)
        };
        let (ended, kept) = run("echo $ADAMANT_ENGINE $ADAMANT_TIMEOUT ${OMPI_COMM_WORLD_RANK-$PMI_RANK}; echo second");
        assert_eq!((ended.code, ended.cause), (0, None), "{kind:?} {:?}", kept.lines.lock());
        for rank in 0..3 {
            assert_eq!(kept.of(rank), [format!("mpi 1m 17s {rank}"), "second".into()], "{kind:?}");
        }
        for (end, exit) in [("exit 3", RankExit::Code(3)), ("kill -9 $$", RankExit::Signal(9))] {
            let (ended, kept) = run(&format!("case ${{OMPI_COMM_WORLD_RANK-$PMI_RANK}} in 1) echo words >&2; sleep 0.2; {end};; *) sleep 600;; esac"));
            let cause = ended.cause.unwrap();
            assert_eq!((ended.code, cause.rank, cause.exit), (exit.code(), Some(1), exit), "{kind:?} {end} {:?}", kept.lines.lock());
            assert_eq!(cause.words[0], "words", "{kind:?}");
            assert!(!kept.lines.lock().iter().any(|(_, _, line)| line.windows(10).any(|part| part == b"ended with")));
        }
        // A program that is asked to end has the time to do what it has to: a quarter of a second under Open MPI 5, which cannot be told.
        let folder = tempfile::tempdir().unwrap();
        let rank = "${OMPI_COMM_WORLD_RANK-$PMI_RANK}";
        let mut plan =
            script(2, &format!("trap 'sleep 1.4; echo > {}/{rank}; exit 143' TERM; echo ready; while :; do sleep 0.01; done", folder.path().display()));
        (plan.engine, plan.environment, plan.grace) = (Some("mpi".into()), environment.clone(), Duration::from_secs(3));
        let (ended, kept) = stopped_when_ready(&plan, 15, 1, 30);
        let saved = [0, 1].map(|rank| folder.path().join(rank.to_string()).exists());
        assert_eq!((ended.code, saved), (143, [kind != MpirunKind::OpenMpi(5); 2]), "{kind:?} {:?}", kept.lines.lock());
    }
}
