//! Who a process is, by the variables of every launcher, and what contradicts itself.
use adamant_distributed::place::{DEFAULT_TIMEOUT, MeetingPlace, PlaceError, RankPlace, StartedBy, open_group, parse_timeout};
use adamant_runtime::{
    ErrorKind,
    communicator::{Communicator, EngineRequest, JoinToken},
};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc, sync::Mutex, time::Duration};

type Set = BTreeMap<String, String>;
fn place(set: &Set) -> Result<RankPlace, PlaceError> {
    RankPlace::from_variables(&|name| set.get(name).cloned())
}
fn set(pairs: &[(&str, &str)]) -> Set {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}
/// Numbers from a seed (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
struct Seed(u64);
impl Seed {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// A launcher, as its own documents say it sets variables: of a rank, of how many, in blocks of so many a host.
struct Launcher {
    by: StartedBy,
    names: [&'static str; 2],
    variables: fn(rank: usize, size: usize, host: usize) -> Vec<(&'static str, String)>,
}
fn tasks_per_node(size: usize, host: usize) -> String {
    match (size / host, size % host) {
        (0, rest) => rest.to_string(),
        (1, 0) => host.to_string(),
        (full, 0) => format!("{host}(x{full})"),
        (1, rest) => format!("{host},{rest}"),
        (full, rest) => format!("{host}(x{full}),{rest}"),
    }
}
fn here(rank: usize, size: usize, host: usize) -> (usize, usize) {
    (rank % host, host.min(size - rank / host * host))
}
const LAUNCHERS: [Launcher; 5] = [
    Launcher {
        by: StartedBy::Ranks,
        names: ["RANK", "WORLD_SIZE"],
        variables: |rank, size, host| {
            let (local, local_size) = here(rank, size, host);
            vec![("RANK", rank.to_string()), ("WORLD_SIZE", size.to_string()), ("LOCAL_RANK", local.to_string()), ("LOCAL_WORLD_SIZE", local_size.to_string())]
        },
    },
    Launcher {
        by: StartedBy::OpenMpi,
        names: ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
        variables: |rank, size, host| {
            let (local, local_size) = here(rank, size, host);
            vec![
                ("OMPI_COMM_WORLD_RANK", rank.to_string()),
                ("OMPI_COMM_WORLD_SIZE", size.to_string()),
                ("OMPI_COMM_WORLD_LOCAL_RANK", local.to_string()),
                ("OMPI_COMM_WORLD_LOCAL_SIZE", local_size.to_string()),
                ("OMPI_COMM_WORLD_NODE_RANK", local.to_string()),
                ("PMIX_RANK", rank.to_string()),
                ("PMIX_NAMESPACE", "prterun-1@1".into()),
            ]
        },
    },
    Launcher {
        by: StartedBy::Pmi,
        names: ["PMI_RANK", "PMI_SIZE"],
        variables: |rank, size, host| {
            let (local, local_size) = here(rank, size, host);
            vec![
                ("PMI_RANK", rank.to_string()),
                ("PMI_SIZE", size.to_string()),
                ("MPI_LOCALRANKID", local.to_string()),
                ("MPI_LOCALNRANKS", local_size.to_string()),
            ]
        },
    },
    Launcher {
        by: StartedBy::Pmix,
        names: ["PMIX_RANK", ""],
        variables: |rank, size, host| [slurm(rank, size, host), vec![("PMIX_RANK", rank.to_string())]].concat(),
    },
    Launcher { by: StartedBy::Slurm, names: ["SLURM_PROCID", ""], variables: slurm },
];
fn slurm(rank: usize, size: usize, host: usize) -> Vec<(&'static str, String)> {
    vec![
        ("SLURM_PROCID", rank.to_string()),
        ("SLURM_LOCALID", (rank % host).to_string()),
        ("SLURM_NODEID", (rank / host).to_string()),
        ("SLURM_NTASKS", size.to_string()),
        ("SLURM_STEP_NUM_TASKS", size.to_string()),
        ("SLURM_STEP_TASKS_PER_NODE", tasks_per_node(size, host)),
        ("SLURM_STEP_NODELIST", "n[007-011],m1".into()),
        ("SLURM_STEP_NUM_NODES", size.div_ceil(host).to_string()),
        ("SLURM_JOB_ID", "1234".into()),
        ("SLURM_STEP_ID", "2".into()),
    ]
}

#[test]
fn a_rank_that_is_taken_for_another() {
    let mut seed = Seed(1);
    for round in 0..2000 {
        let launcher = &LAUNCHERS[round % LAUNCHERS.len()];
        let size = 1 + seed.below(if round % 3 == 0 { 8 } else { 5000 });
        let (rank, host) = (seed.below(size), 1 + seed.below(size));
        let mut given: Set = (launcher.variables)(rank, size, host).into_iter().map(|(name, value)| (name.into(), value)).collect();
        let (local, local_size) = here(rank, size, host);
        let found = place(&given).unwrap_or_else(|e| panic!("{e}: {given:?}"));
        assert_eq!((found.started_by, found.rank, found.size, found.local_rank, found.local_size), (launcher.by, rank, size, local, local_size), "{given:?}");
        assert_eq!((found.epoch, found.timeout, found.token, found.listener), (0, DEFAULT_TIMEOUT, None, None));
        // A rank that is none of them.
        given.insert(launcher.names[0].into(), (size + seed.below(3)).to_string());
        let error = place(&given).unwrap_err();
        let PlaceError::Contradiction { first, first_value, .. } = &error else { panic!("{error}: {given:?}") };
        assert_eq!((first.as_str(), first_value), (launcher.names[0], &given[launcher.names[0]]));
    }
}
#[test]
fn an_outer_launcher_that_is_believed_before_the_inner_one() {
    let mut seed = Seed(2);
    // All pairs: the first of the table that is there decides, and takes nothing of the other.
    for (k, inner) in LAUNCHERS.iter().enumerate() {
        for outer in &LAUNCHERS[k + 1..] {
            let (size, other) = (2 + seed.below(6), 10 + seed.below(6));
            let rank = seed.below(size);
            let mut given: Set = (outer.variables)(seed.below(other), other, 3).into_iter().map(|(name, value)| (name.into(), value)).collect();
            given.extend((inner.variables)(rank, size, 2).into_iter().map(|(name, value)| (name.into(), value)));
            let found = place(&given).unwrap();
            let (local, local_size) = here(rank, size, 2);
            assert_eq!((found.started_by, found.rank, found.size, found.local_rank, found.local_size), (inner.by, rank, size, local, local_size), "{given:?}");
        }
    }
}
#[test]
fn a_shell_that_is_taken_for_a_rank() {
    let alone = RankPlace::alone();
    let batch = [("SLURM_JOB_ID", "7"), ("SLURM_PROCID", "0"), ("SLURM_LOCALID", "0"), ("SLURM_NODEID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_NPROCS", "4")];
    for given in [
        set(&[]),
        // `sbatch -n 4`, `salloc -n 4`.
        set(&batch),
        set(&batch[..1]),
        set(&[("SLURM_NTASKS", "4"), ("SLURM_STEP_NUM_TASKS", "4")]),
        set(&[("RANK", ""), ("WORLD_SIZE", " ")]),
        // Nobody says that there are ranks: where they would meet does not matter.
        set(&[("MASTER_ADDR", "x"), ("ADAMANT_TIMEOUT", "never"), ("LOCAL_RANK", "1")]),
    ] {
        assert_eq!(place(&given).unwrap(), alone, "{given:?}");
    }
    // `srun --pty bash`, in an allocation of 4.
    let mut pty = set(&batch);
    pty.extend(set(&[("SLURM_STEP_ID", "0"), ("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_STEP_TASKS_PER_NODE", "1")]));
    let found = place(&pty).unwrap();
    assert_eq!((found.started_by, found.rank, found.size), (StartedBy::Slurm, 0, 1));
    assert_eq!(open_group(&found).unwrap().size(), 1);
}
#[test]
fn variables_that_make_no_sense() {
    let ours = [("RANK", "1"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "4")];
    let check = |more: &[(&str, &str)], words: &[&str]| {
        let mut given = set(&ours);
        for (name, value) in more {
            if *value == "-" { drop(given.remove(*name)) } else { drop(given.insert(name.to_string(), value.to_string())) }
        }
        let text = place(&given).expect_err(&format!("{more:?}")).to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        // What the library says is what the engine's user gets.
        assert!(matches!(ErrorKind::from(place(&given).unwrap_err()), ErrorKind::Argument(_)));
    };
    check(&[("RANK", "-")], &["WORLD_SIZE is `4`, but RANK is not set", "set both, or unset both"]);
    check(&[("WORLD_SIZE", "-")], &["RANK is `1`, but WORLD_SIZE is not set"]);
    check(&[("WORLD_SIZE", "")], &["RANK is `1`, but WORLD_SIZE is not set"]);
    check(&[("LOCAL_RANK", "-")], &["LOCAL_WORLD_SIZE is `4`, but LOCAL_RANK is not set"]);
    check(&[("LOCAL_WORLD_SIZE", "-")], &["LOCAL_RANK is `1`, but LOCAL_WORLD_SIZE is not set"]);
    for value in ["x", "1.5", "-1", "99999999999999999999999", "0x1", "1 2"] {
        check(&[("RANK", value)], &[&format!("RANK is `{value}`, but it should be")]);
        check(&[("WORLD_SIZE", value)], &[&format!("WORLD_SIZE is `{value}`, but it should be")]);
        check(&[("LOCAL_RANK", value)], &[&format!("LOCAL_RANK is `{value}`, but it should be")]);
        check(&[("ADAMANT_EPOCH", value)], &[&format!("ADAMANT_EPOCH is `{value}`, but it should be")]);
    }
    check(&[("WORLD_SIZE", "0")], &["WORLD_SIZE is `0`", "from 1"]);
    check(&[("WORLD_SIZE", "4294967296")], &["WORLD_SIZE is `4294967296`"]);
    check(&[("RANK", "4")], &["RANK is `4`, and WORLD_SIZE is `4`"]);
    check(&[("LOCAL_RANK", "4")], &["LOCAL_RANK is `4`, and LOCAL_WORLD_SIZE is `4`"]);
    check(&[("LOCAL_WORLD_SIZE", "5")], &["LOCAL_WORLD_SIZE is `5`, and WORLD_SIZE is `4`"]);
    check(&[("LOCAL_WORLD_SIZE", "0")], &["LOCAL_WORLD_SIZE is `0`"]);
    check(&[("MASTER_ADDR", "h")], &["MASTER_ADDR is `h`, but MASTER_PORT is not set"]);
    check(&[("MASTER_PORT", "80")], &["MASTER_PORT is `80`, but MASTER_ADDR is not set"]);
    for port in ["0", "65536", "-1", "http"] {
        check(&[("MASTER_ADDR", "h"), ("MASTER_PORT", port)], &[&format!("MASTER_PORT is `{port}`"), "from 1 to 65535"]);
    }
    for meeting in ["h:1", "tcp://h", "tcp://h:0", "tcp://:1", "file://x", "file://", "env:", "udp://h:1"] {
        check(&[("ADAMANT_MEETING", meeting)], &[&format!("ADAMANT_MEETING is `{meeting}`"), "file:///PATH"]);
    }
    for timeout in ["0", "0s", "-1", "soon", "1e400", "inf", "nan"] {
        check(&[("ADAMANT_TIMEOUT", timeout)], &[&format!("ADAMANT_TIMEOUT is `{timeout}`")]);
    }
    for name in ["ADAMANT_TOKEN_FD", "ADAMANT_LISTENER_FD"] {
        check(&[(name, "-1")], &[&format!("{name} is `-1`")]);
        check(&[(name, "three")], &[&format!("{name} is `three`")]);
    }
    check(&[("ADAMANT_TOKEN_FD", "3"), ("ADAMANT_TOKEN_FILE", "t")], &["ADAMANT_TOKEN_FD is `3`, and ADAMANT_TOKEN_FILE is `t`", "one token"]);
    // Of the other launchers.
    let wrong = |pairs: &[(&str, &str)], words: &str| {
        let text = place(&set(pairs)).expect_err(&format!("{pairs:?}")).to_string();
        assert!(text.contains(words), "{text}");
    };
    wrong(&[("OMPI_COMM_WORLD_RANK", "0")], "OMPI_COMM_WORLD_RANK is `0`, but OMPI_COMM_WORLD_SIZE is not set");
    wrong(&[("PMI_SIZE", "2")], "PMI_SIZE is `2`, but PMI_RANK is not set");
    wrong(&[("PMIX_RANK", "3")], "PMIX_RANK is `3`, but SLURM_STEP_NUM_TASKS is not set; nothing says how many");
    let step = [("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_LOCALID", "1"), ("SLURM_NODEID", "2")];
    for list in ["2(x2)", "x", "2(xy),1", ""] {
        let given = [&step[..], &[("SLURM_STEP_TASKS_PER_NODE", list)]].concat();
        match list {
            "" => assert_eq!(place(&set(&given)).unwrap().local_size, 4),
            list => wrong(&given, &format!("SLURM_STEP_TASKS_PER_NODE is `{list}`")),
        }
    }
    for list in ["n[", "n[x-2]", "[", ",a"] {
        wrong(&[&step[..3], &[("SLURM_STEP_NODELIST", list)]].concat(), &format!("SLURM_STEP_NODELIST is `{list}`"));
    }
}
#[test]
fn a_meeting_place_that_is_another_one() {
    let at = |host: &str, port| Some(MeetingPlace::At { host: host.into(), port });
    let ours = [("RANK", "0"), ("WORLD_SIZE", "2")];
    let step = [("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_LOCALID", "1"), ("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "3")];
    let port = 15_000 + (7 * 31 + 3) as u16;
    let cases: [(&[(&str, &str)], &[(&str, &str)], Option<MeetingPlace>); 13] = [
        (&ours, &[], None),
        (&ours, &[("MASTER_ADDR", "10.0.0.1"), ("MASTER_PORT", "29500")], at("10.0.0.1", 29500)),
        (&ours, &[("MASTER_ADDR", "h"), ("MASTER_PORT", "1"), ("ADAMANT_MEETING", "env://")], at("h", 1)),
        (&ours, &[("MASTER_ADDR", "h"), ("ADAMANT_MEETING", "tcp://[::1]:9")], at("::1", 9)),
        (&ours, &[("ADAMANT_MEETING", "file:///tmp/a b")], Some(MeetingPlace::File(PathBuf::from("/tmp/a b")))),
        (&ours, &[("SLURM_STEP_NODELIST", "n1")], None),
        (&step, &[("SLURM_STEP_NODELIST", "n[007-011],m1")], at("n007", port)),
        (&step, &[("SLURM_STEP_NODELIST", "gpu-a3,gpu-a4")], at("gpu-a3", port)),
        (&step, &[("SLURM_STEP_NODELIST", "n[5,7-9]-ib.cluster")], at("n5-ib.cluster", port)),
        (&step, &[("SLURM_STEP_NODELIST", "n5"), ("SLURM_STEP_NUM_NODES", "1")], at("127.0.0.1", port)),
        (&step, &[("SLURM_STEP_NODELIST", "n5"), ("MASTER_PORT", "80")], at("n5", 80)),
        (&step, &[("SLURM_STEP_NODELIST", "n5"), ("MASTER_ADDR", "h"), ("MASTER_PORT", "81")], at("h", 81)),
        (&step, &[], None),
    ];
    for (base, more, want) in cases {
        let found = place(&set(&[base, more].concat())).unwrap_or_else(|e| panic!("{more:?}: {e}"));
        assert_eq!(found.meeting, want, "{more:?}");
    }
}
#[test]
fn what_an_engine_is_asked_for() {
    let given = set(&[
        ("RANK", "5"),
        ("WORLD_SIZE", "8"),
        ("LOCAL_RANK", "1"),
        ("LOCAL_WORLD_SIZE", "4"),
        ("MASTER_ADDR", "h"),
        ("MASTER_PORT", "77"),
        ("ADAMANT_TOKEN_FD", "9"),
        ("ADAMANT_LISTENER_FD", "11"),
        ("ADAMANT_EPOCH", "3"),
        ("ADAMANT_BIND", "10.0.0.2"),
        ("ADAMANT_TIMEOUT", "5m"),
        ("ADAMANT_ENGINE", "auto"),
    ]);
    let found = place(&given).unwrap();
    assert_eq!(found.engine, None);
    assert_eq!((found.threads(16), found.threads(3), found.threads(0)), (4, 1, 1));
    let request = found.to_request();
    assert_eq!((request.rank, request.size, request.local, request.epoch), (5, 8, (4, 1), 3));
    assert_eq!((request.meeting, request.listener, request.token), (Some(("h".into(), 77)), Some(11), Some(JoinToken::Descriptor(9))));
    assert_eq!((request.bind.as_deref(), request.timeout), (Some("10.0.0.2"), Duration::from_secs(300)));
    for (text, want) in [("60", 60.0), ("1.5", 1.5), ("90s", 90.0), ("1m 30s", 90.0), ("2h", 7200.0), ("250ms", 0.25)] {
        assert_eq!(parse_timeout(text).map(|time| time.as_secs_f64()), Some(want), "{text}");
    }
}

/// Engines that say what they were asked for.
static ASKED: Mutex<Vec<(&'static str, EngineRequest)>> = Mutex::new(Vec::new());
fn ask(name: &'static str, request: &EngineRequest) -> Result<Arc<dyn Communicator>, ErrorKind> {
    // Of a meeting by a file: it is there until the engine is done.
    if let Some(JoinToken::File(path)) = &request.token {
        assert_eq!(std::fs::read_to_string(path).map(|token| token.len()).map_err(|e| e.to_string()), Ok(64));
    }
    ASKED.lock().unwrap().push((name, request.clone()));
    Err(ErrorKind::Unsupported { backend: name.into(), what: "groups, in a test".into() })
}
adamant_runtime::register_engine!(ASKED_MPI, "mpi", |request| ask("mpi", request), || Ok(()));
adamant_runtime::register_engine!(ASKED_FAKE, "fake", |request| ask("fake", request), || Ok(()));
adamant_runtime::register_engine!(ASKED_ABSENT, "absent", |_| panic!("an engine that is not there is opened"), || Err(ErrorKind::DeviceAbsent(
    "the engine is not there".into()
)));

#[test]
fn an_engine_that_was_not_meant() {
    for launcher in &LAUNCHERS {
        let mut given: Set = (launcher.variables)(0, 2, 2).into_iter().map(|(name, value)| (name.into(), value)).collect();
        let is_mpi = matches!(launcher.by, StartedBy::OpenMpi | StartedBy::Pmi | StartedBy::Pmix);
        assert_eq!(place(&given).unwrap().engine_name(), if is_mpi { "mpi" } else { "local" });
        given.insert("ADAMANT_ENGINE".into(), "fake".into());
        assert_eq!(place(&given).unwrap().engine_name(), "fake");
        let error = open_group(&place(&given).unwrap()).err().unwrap();
        assert!(matches!(error, ErrorKind::Unsupported { backend, .. } if backend == "fake"));
        given.insert("ADAMANT_ENGINE".into(), "absent".into());
        assert!(matches!(open_group(&place(&given).unwrap()).err(), Some(ErrorKind::DeviceAbsent(_))));
        given.insert("ADAMANT_ENGINE".into(), "mpj".into());
        let text = open_group(&place(&given).unwrap()).err().unwrap().to_string();
        assert!(text.contains("`mpj` is no engine") && text.contains("fake") && text.contains("mpi"), "{text}");
    }
    let alone = open_group(&RankPlace::alone()).unwrap();
    assert_eq!((alone.rank(), alone.size(), alone.engine()), (0, 1, "none"));
}
#[cfg(unix)]
#[test]
fn a_file_by_which_ranks_meet_that_is_old_or_left() {
    use std::{fs, net::TcpStream, thread};
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("meet");
    let beside = folder.path().join("meet.token");
    let rank = |rank: &str, epoch: &str, timeout: &str| {
        let meeting = format!("file://{}", file.display());
        let given = [
            ("RANK", rank),
            ("WORLD_SIZE", "3"),
            ("ADAMANT_ENGINE", "fake"),
            ("ADAMANT_MEETING", &meeting),
            ("ADAMANT_EPOCH", epoch),
            ("ADAMANT_TIMEOUT", timeout),
        ];
        place(&set(&given)).unwrap()
    };
    // Left behind by a job that was killed: an address at which somebody else may listen by now.
    fs::write(&file, "127.0.0.1 9 0\n").unwrap();
    fs::write(&beside, "old").unwrap();
    let begun = std::time::Instant::now();
    let lost = open_group(&rank("1", "0", "200ms")).err().unwrap();
    assert!(matches!(&lost, ErrorKind::PeerLost { rank: 0, why, .. } if why.contains("within 200ms")), "{lost}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    // The others look before rank 0 is there, and find it; the engine of rank 0 takes long enough for them.
    let asked_of = |rank: usize, epoch: u64| {
        ASKED
            .lock()
            .unwrap()
            .iter()
            .find(|(_, request)| request.rank == rank && request.size == 3 && request.epoch == epoch)
            .map(|(_, request)| request.clone())
    };
    let others: Vec<_> = ["1", "2"].map(|number| (rank(number, "1", "20s"), rank(number, "0", "300ms"))).into_iter().collect();
    let looking: Vec<_> = others
        .into_iter()
        .map(|(place, earlier)| (thread::spawn(move || open_group(&place).err()), thread::spawn(move || open_group(&earlier).err())))
        .collect();
    thread::sleep(Duration::from_millis(50));
    // Rank 0, held where it listens.
    let mut request = rank("0", "1", "20s");
    request.engine = Some("slow".into());
    let zero = thread::spawn(move || open_group(&request).err());
    for (right, earlier) in looking {
        assert!(matches!(right.join().unwrap(), Some(ErrorKind::Unsupported { .. })));
        // Of another start of the job: not for them.
        assert!(matches!(earlier.join().unwrap(), Some(ErrorKind::PeerLost { .. })));
    }
    *SLOW.lock().unwrap() = false;
    assert!(matches!(zero.join().unwrap(), Some(ErrorKind::Unsupported { .. })));
    let (zero, one, two) = (asked_of(0, 1).unwrap(), asked_of(1, 1).unwrap(), asked_of(2, 1).unwrap());
    assert!(zero.meeting.is_some() && zero.meeting == one.meeting && zero.meeting == two.meeting, "{zero:?} {one:?}");
    assert_eq!((&zero.token, &one.token, one.listener), (&Some(JoinToken::File(beside.clone())), &two.token, None));
    // Rank 0 has been given a socket that listens there.
    let (host, port) = zero.meeting.clone().unwrap();
    assert!(zero.listener.is_some() && TcpStream::connect((host.as_str(), port)).is_ok());
    assert!(!file.exists() && !beside.exists(), "left: {:?}", fs::read_dir(folder.path()).unwrap().collect::<Vec<_>>());
    // A folder that is not there.
    let nowhere = format!("file://{}/no/meet", folder.path().display());
    let given = set(&[("RANK", "0"), ("WORLD_SIZE", "2"), ("ADAMANT_ENGINE", "fake"), ("ADAMANT_MEETING", &nowhere)]);
    assert!(matches!(open_group(&place(&given).unwrap()).err(), Some(ErrorKind::File { .. })));
}
static SLOW: Mutex<bool> = Mutex::new(true);
adamant_runtime::register_engine!(
    ASKED_SLOW,
    "slow",
    |request| {
        use std::os::unix::fs::PermissionsExt;
        // For its user's eyes alone.
        if let Some(JoinToken::File(path)) = &request.token {
            for file in [path.clone(), path.with_extension("")] {
                assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
            }
        }
        while *SLOW.lock().unwrap() {
            std::thread::sleep(Duration::from_millis(5));
        }
        ask("slow", request)
    },
    || Ok(())
);
