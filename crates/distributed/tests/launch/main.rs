//! Jobs of small programs: what a rank is told, what is shown of it, how it ends, and that nothing is left.
#![cfg(unix)]
mod bound;
mod engine;
mod mpirun;
mod orphans;

use adamant_distributed::launch::{FirstCause, HostSlots, LaunchEnded, LaunchError, LaunchOutput, LaunchPlan, LaunchStop, RankExit, RankStream, run};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc::channel},
    thread,
    time::{Duration, Instant},
};

type Lines = Vec<(Option<usize>, RankStream, Vec<u8>)>;
/// Keeps all lines.
#[derive(Clone, Default)]
struct Kept {
    lines: Arc<Mutex<Lines>>,
    notes: Arc<Mutex<Vec<String>>>,
}
impl LaunchOutput for Kept {
    fn line(&mut self, rank: Option<usize>, stream: RankStream, line: &[u8]) -> io::Result<()> {
        self.lines.lock().push((rank, stream, line.to_vec()));
        Ok(())
    }
    fn note(&mut self, text: &str) {
        self.notes.lock().push(text.into());
    }
}
impl Kept {
    /// What a rank wrote to stdout.
    fn of(&self, rank: usize) -> Vec<String> {
        let lines = self.lines.lock();
        let own = lines.iter().filter(|(r, stream, _)| *r == Some(rank) && *stream == RankStream::Out);
        own.map(|(_, _, line)| String::from_utf8_lossy(line).into_owned()).collect()
    }
}

/// So many ranks of a script, without restarts.
fn script(ranks: usize, text: &str) -> LaunchPlan {
    let mut plan = LaunchPlan::new(ranks, "sh");
    plan.arguments = vec!["-c".into(), text.into()];
    (plan.max_restarts, plan.restart_delay) = (0, Duration::from_millis(1));
    plan
}
/// Runs a job, within a time.
fn job_with(plan: &LaunchPlan, stop: &LaunchStop, seconds: u64) -> (Result<LaunchEnded, LaunchError>, Kept) {
    let (kept, stop, plan) = (Kept::default(), stop.clone(), plan.clone());
    let (done, ended) = channel();
    let output = Box::new(kept.clone());
    thread::spawn(move || done.send(run(&plan, output, &stop)));
    let ended = ended.recv_timeout(Duration::from_secs(seconds)).unwrap_or_else(|_| panic!("a job that runs after {seconds} s: {:?}", kept.notes.lock()));
    (ended, kept)
}
fn job(plan: &LaunchPlan) -> (LaunchEnded, Kept) {
    let (ended, kept) = job_with(plan, &LaunchStop::new(), 60);
    (ended.unwrap(), kept)
}
fn is_alive(process: u32) -> bool {
    // A zombie is dead, and waits for its parent to look.
    std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with(['Z', 'X']))
}
/// Waits until something holds.
fn within(seconds: f64, what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed().as_secs_f64() < seconds, "{what}: not after {seconds} s");
        thread::sleep(Duration::from_millis(2));
    }
}
fn all_gone(processes: &[u32]) {
    within(5.0, &format!("{processes:?} are gone"), || !processes.iter().any(|process| is_alive(*process)));
}

#[test]
fn what_a_rank_is_told() {
    const TOLD: [&str; 9] =
        ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "ADAMANT_EPOCH", "ADAMANT_ENGINE", "ADAMANT_TIMEOUT", "ADAMANT_NUM_THREADS"];
    let text = TOLD.map(|name| format!("echo {name}=${name}")).join("; ");
    let mut plan = script(3, &format!("{text}; echo GIVEN=$GIVEN; echo OMP=$OMP_NUM_THREADS; read -r line || echo no stdin"));
    (plan.engine, plan.timeout) = (Some("local".into()), Some(Duration::from_secs(90)));
    plan.environment = vec![("GIVEN".into(), "a b".into()), ("OMP_NUM_THREADS".into(), "5".into())];
    let (ended, kept) = job(&plan);
    assert_eq!((ended.code, ended.starts, ended.cause), (0, 1, None));
    let cores = thread::available_parallelism().unwrap().get();
    for rank in 0..3 {
        let want = [
            format!("RANK={rank}"),
            format!("LOCAL_RANK={rank}"),
            "WORLD_SIZE=3".into(),
            "LOCAL_WORLD_SIZE=3".into(),
            "MASTER_ADDR=127.0.0.1".into(),
            "ADAMANT_EPOCH=0".into(),
            "ADAMANT_ENGINE=local".into(),
            "ADAMANT_TIMEOUT=1m 30s".into(),
            format!("ADAMANT_NUM_THREADS={}", (cores / 3).max(1)),
            "GIVEN=a b".into(),
            "OMP=5".into(),
            "no stdin".into(),
        ];
        assert_eq!(kept.of(rank), want);
    }
}
#[test]
fn a_token_that_is_seen_by_others_or_read_by_one_rank_alone() {
    // Twice, each time from where the descriptor stands: its own rank's alone.
    let mut plan =
        script(4, "cat <&$ADAMANT_TOKEN_FD; echo; env; tr '\\0' '\\n' < /proc/$$/cmdline; ls -l /proc/$$/fd; echo listener ${ADAMANT_LISTENER_FD-none}");
    plan.program = "bash".into();
    let (ended, kept) = job(&plan);
    assert_eq!(ended.code, 0, "{:?}", kept.lines.lock());
    let token = kept.of(0)[0].clone();
    assert!(token.len() == 64 && token.bytes().all(|c| c.is_ascii_hexdigit()), "{token}");
    for rank in 0..4 {
        let lines = kept.of(rank);
        assert_eq!(lines[0], token, "rank {rank}");
        assert!(!lines[1..].iter().any(|line| line.contains(&token)), "rank {rank}: {lines:?}");
        // bash keeps copies of its own at high numbers.
        let number = |line: &str| line.split(" -> ").next().and_then(|line| line.rsplit(' ').next()?.parse::<u32>().ok());
        let open: Vec<&String> = lines.iter().filter(|line| line.contains(" -> ") && number(line).is_some_and(|fd| fd < 200)).collect();
        let sockets = open.iter().filter(|line| line.contains("socket:")).count();
        assert_eq!(sockets, usize::from(rank == 0), "rank {rank}: {open:?}");
        // stdin, stdout, stderr, the token, rank 0's socket: nothing of the launcher's, nothing of another rank's.
        let foreign = open.iter().filter(|line| !["/dev/null", "pipe:", "memfd:adamant-token", "socket:"].iter().any(|of| line.contains(of))).count();
        let pipes = open.iter().filter(|line| line.contains("pipe:")).count();
        assert_eq!((foreign, pipes), (0, 2), "rank {rank}: {open:?}");
        assert_eq!(lines.last().unwrap() == "listener none", rank != 0, "rank {rank}");
    }
}
#[test]
fn a_port_that_nobody_listens_at_when_the_ranks_begin() {
    let mut plan = script(2, "if [ $RANK = 1 ]; then exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT && echo met; else sleep 0.5; fi");
    plan.program = "bash".into();
    let (ended, kept) = job(&plan);
    assert_eq!((ended.code, kept.of(1)), (0, vec!["met".into()]));
    // When rank 0 is gone, nobody else keeps its socket.
    plan.arguments[1] = "if [ $RANK = 0 ]; then exit 0; fi; sleep 0.3; (exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT) 2>/dev/null || echo refused".into();
    assert_eq!(job(&plan).1.of(1), ["refused"]);
}
#[test]
fn sixty_four_ranks_at_once() {
    let (ended, kept) = job(&LaunchPlan::new(64, "true"));
    assert_eq!((ended.code, ended.cause, ended.starts), (0, None, 1));
    assert!(kept.lines.lock().is_empty() && kept.notes.lock().is_empty());
    let (ended, kept) = job(&script(64, "echo $RANK of $WORLD_SIZE"));
    assert_eq!(ended.code, 0);
    for rank in 0..64 {
        assert_eq!(kept.of(rank), [format!("{rank} of 64")]);
    }
}
#[test]
fn exit_codes_and_signals_that_get_lost() {
    for (text, code, exit) in [
        ("exit 1", 1, RankExit::Code(1)),
        ("exit 3", 3, RankExit::Code(3)),
        ("exit 255", 255, RankExit::Code(255)),
        ("kill -9 $$", 137, RankExit::Signal(9)),
        ("kill -15 $$", 143, RankExit::Signal(15)),
        ("kill -6 $$", 134, RankExit::Signal(6)),
        // A rank that closes its streams is not one that ended.
        ("exec >&- 2>&-; sleep 0.3; exit 5", 5, RankExit::Code(5)),
    ] {
        let (ended, kept) = job(&script(3, &format!("if [ $RANK = 1 ]; then {text}; else sleep 0.5; fi")));
        let cause = ended.cause.unwrap();
        assert_eq!((ended.code, cause.rank, cause.exit), (code, Some(1), exit), "{text}");
        assert_eq!(kept.notes.lock().len(), 1);
    }
}
#[test]
fn a_first_cause_that_those_hide_who_fail_of_it() {
    for round in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        // The others fail a moment after its end has closed what they read from; all have more to say than is kept.
        let text = "for k in 1 2 3 4 5 6 7 8 9 10 11; do echo line $k >&2; done
            [ -p fifo ] || mkfifo fifo 2>/dev/null
            if [ $RANK = WHO ]; then exec 9>fifo; sleep 0.2; echo 'the disk is gone' >&2; exit 3; fi
            read line <fifo; sleep 0.05; exit 1";
        let mut plan = script(4, &format!("cd {}; {}", folder.path().display(), text.replace("WHO", &(round % 4).to_string())));
        plan.log_folder = Some(folder.path().join("logs"));
        let (ended, kept) = job(&plan);
        let cause = ended.cause.unwrap();
        assert_eq!((ended.code, cause.rank, cause.exit), (3, Some(round % 4), RankExit::Code(3)));
        assert_eq!((cause.words.len(), cause.words[0].as_str(), cause.words[9].as_str()), (10, "line 3", "the disk is gone"));
        let note = format!("rank {} failed first: exit code 3; its last lines on stderr:\n  line 3\n", round % 4);
        assert!(kept.notes.lock()[0].starts_with(&note), "{:?}", kept.notes.lock());
        let log = std::fs::read_to_string(folder.path().join(format!("logs/rank-{}.log", round % 4))).unwrap();
        assert!(log.starts_with("line 1\nline 2\n") && log.ends_with("the disk is gone\n"), "{log}");
    }
}
#[test]
fn a_rank_that_lost_a_peer_and_ends_before_the_one_that_failed() {
    let (ended, _) = job(&script(3, "case $RANK in 0) sleep 0.3; exit 5;; *) exit 7;; esac"));
    assert_eq!((ended.code, ended.cause.unwrap().rank), (5, Some(0)));
    // It is told when there is no other.
    let (ended, _) = job(&script(3, "case $RANK in 1) exit 7;; *) sleep 30;; esac"));
    assert_eq!((ended.code, ended.cause.unwrap().rank), (7, Some(1)));
}
#[test]
fn survivors_that_may_say_nothing_or_stay() {
    // They have a second of their own, then SIGTERM, then the grace.
    let mut plan = script(
        3,
        "case $RANK in 0) exit 4;; 1) trap 'echo asked; exit 143' TERM; sleep 0.4; echo seen; while :; do sleep 0.01; done;; *) trap '' TERM; while :; do sleep 0.01; done;; esac",
    );
    plan.grace = Duration::from_millis(700);
    let begun = Instant::now();
    let (ended, kept) = job(&plan);
    assert_eq!((ended.code, kept.of(1)), (4, vec!["seen".to_string(), "asked".into()]));
    let took = begun.elapsed().as_secs_f64();
    assert!((1.6..4.0).contains(&took), "{took} s");
}
#[test]
fn a_signal_to_the_launcher_that_ranks_do_not_get() {
    let mut plan = script(3, "trap 'echo bye; exit 0' TERM; trap 'echo hup; exit 9' HUP; echo ready; while :; do sleep 0.01; done");
    plan.max_restarts = 5;
    for (signal, word) in [(15, "bye"), (1, "hup")] {
        let (ended, kept) = stopped_when_ready(&plan, signal, 1, 10);
        assert_eq!((ended.code, ended.signal, ended.starts), (128 + signal as u8, Some(signal), 1));
        // What they end with is no failure.
        assert!(ended.cause.is_none() && kept.notes.lock().is_empty(), "{:?}", kept.notes.lock());
        for rank in 0..3 {
            assert_eq!(kept.of(rank), ["ready", word]);
        }
    }
    // Whoever does not listen is killed after the grace, and at once when it is said twice.
    plan.arguments[1] = "trap '' TERM INT; echo ready; while :; do sleep 0.01; done".into();
    for (times, grace, most) in [(1, 300, 5.0), (2, 60_000, 5.0)] {
        plan.grace = Duration::from_millis(grace);
        let begun = Instant::now();
        let (ended, _) = stopped_when_ready(&plan, 2, times, 30);
        assert_eq!((ended.code, ended.starts), (130, 1));
        assert!(begun.elapsed().as_secs_f64() < most);
    }
}
/// Asks for the end when each rank has said `ready`.
fn stopped_when_ready(plan: &LaunchPlan, signal: i32, times: usize, seconds: u64) -> (LaunchEnded, Kept) {
    struct Ready(Kept, LaunchStop, usize, i32, usize);
    impl LaunchOutput for Ready {
        fn line(&mut self, rank: Option<usize>, stream: RankStream, line: &[u8]) -> io::Result<()> {
            if line == b"ready" {
                self.2 -= 1;
                if self.2 == 0 {
                    (0..self.4).for_each(|_| self.1.ask(self.3));
                }
            }
            self.0.line(rank, stream, line)
        }
        fn note(&mut self, text: &str) {
            self.0.note(text);
        }
    }
    let (kept, stop, plan) = (Kept::default(), LaunchStop::new(), plan.clone());
    let output = Box::new(Ready(kept.clone(), stop.clone(), plan.ranks, signal, times));
    let (done, ended) = channel();
    thread::spawn(move || done.send(run(&plan, output, &stop)));
    (ended.recv_timeout(Duration::from_secs(seconds)).expect("a job that does not end").unwrap(), kept)
}
#[test]
fn what_a_rank_has_started_is_left_behind() {
    for end in ["exit 0", "exit 3", "kill -9 $$", "sleep 100"] {
        let text = format!("sleep 1000 & echo $!; (sleep 1000; true) & echo $!; if [ $RANK = 0 ]; then {end}; fi");
        let stop = LaunchStop::new();
        let mut plan = script(2, &text);
        plan.grace = Duration::from_millis(100);
        if end == "sleep 100" {
            let stop = stop.clone();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(300));
                stop.ask(15)
            });
        }
        let kept = job_with(&plan, &stop, 20).1;
        let processes: Vec<u32> = (0..2).flat_map(|rank| kept.of(rank)).map(|pid| pid.parse().unwrap()).collect();
        assert_eq!(processes.len(), 4);
        all_gone(&processes);
    }
}
#[test]
fn a_process_that_left_its_group_and_keeps_a_stream_open() {
    // It says nothing, or goes on for ever.
    for what in ["exec sleep 15", "n=0; while [ $n -lt 1500 ]; do n=$((n+1)); echo more; sleep 0.01; done"] {
        let begun = Instant::now();
        let (ended, kept) = job(&script(2, &format!("setsid sh -c 'echo $$; {what}' & sleep 0.3; printf unfinished; exit 0")));
        assert!(begun.elapsed() < Duration::from_secs(8));
        assert_eq!(ended.code, 0);
        for rank in 0..2 {
            let lines = kept.of(rank);
            assert!(lines.iter().any(|line| line.starts_with("unfinished")), "{lines:?}");
            let _ = Command::new("kill").args(["-9", &lines[0]]).status();
        }
    }
}
#[test]
fn a_job_is_started_again_with_everything_new() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = script(
        2,
        "echo epoch $ADAMANT_EPOCH; cat /proc/self/fd/$ADAMANT_TOKEN_FD; echo; if [ $ADAMANT_EPOCH -lt 2 ] && [ $RANK = 1 ]; then echo broken $ADAMANT_EPOCH >&2; exit 1; fi; sleep 0.05",
    );
    (plan.max_restarts, plan.log_folder) = (3, Some(folder.path().to_path_buf()));
    let (ended, kept) = job(&plan);
    assert_eq!((ended.code, ended.starts, ended.cause), (0, 3, None));
    for rank in 0..2 {
        let lines = kept.of(rank);
        let epochs: Vec<&String> = lines.iter().step_by(2).collect();
        assert_eq!(epochs, ["epoch 0", "epoch 1", "epoch 2"]);
        let tokens: BTreeSet<&String> = lines.iter().skip(1).step_by(2).collect();
        assert_eq!(tokens.len(), 3, "{tokens:?}");
    }
    let notes = kept.notes.lock();
    assert!(notes[0].starts_with("rank 1 failed first: exit code 1") && notes[0].ends_with("broken 0"), "{notes:?}");
    assert_eq!(notes[1], "starting all 2 ranks again in 1ms: restart 1 of 3");
    assert_eq!((notes.len(), notes[3].as_str()), (4, "starting all 2 ranks again in 2ms: restart 2 of 3"));
    for (name, begins) in [("rank-1.log", "epoch 0\n"), ("rank-1.restart-1.log", "epoch 1\n"), ("rank-0.restart-2.log", "epoch 2\n")] {
        assert!(std::fs::read_to_string(folder.path().join(name)).unwrap().starts_with(begins), "{name}");
    }
}
#[test]
fn restarts_that_cannot_help() {
    for (text, restarts, starts, code) in [
        ("exit 1", 2, 3, 1),
        ("exit 1", 0, 1, 1),
        ("kill -9 $$", 1, 2, 137),
        ("exit 2", 3, 1, 2),
        ("exit 127", 3, 1, 127),
        ("exit 143", 3, 1, 143),
        ("exit 130", 3, 1, 130),
        ("kill -15 $$", 3, 1, 143),
    ] {
        let mut plan = script(2, text);
        plan.max_restarts = restarts;
        let (ended, _) = job(&plan);
        assert_eq!((ended.starts, ended.code), (starts, code), "{text}");
    }
    // Nor once the launcher is told to end.
    let (stop, mut plan) = (LaunchStop::new(), script(1, "exit 1"));
    (plan.max_restarts, plan.restart_delay) = (3, Duration::from_secs(600));
    let asks = stop.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        asks.ask(2)
    });
    let ended = job_with(&plan, &stop, 20).0.unwrap();
    assert_eq!((ended.code, ended.starts, ended.signal), (130, 1, Some(2)));
}
#[test]
fn much_output_is_torn_mixed_or_lost() {
    // Each rank writes 100,000 lines, half of them to stderr, at once with the others.
    let text = "awk -v r=$RANK 'BEGIN { for (k = 0; k < 100000; k++) { line = r \" \" k \" \" substr(\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\", 1, k % 50); if (k % 2) print line > \"/dev/stderr\"; else print line } }'";
    let (ended, kept) = job(&script(4, text));
    assert_eq!((ended.code, ended.output.is_none()), (0, true));
    let mut next: BTreeMap<(usize, bool), usize> = BTreeMap::new();
    for (rank, stream, line) in kept.lines.lock().iter() {
        let (rank, line) = (rank.unwrap(), String::from_utf8(line.clone()).unwrap());
        let at = next.entry((rank, *stream == RankStream::Err)).or_insert(usize::from(*stream == RankStream::Err));
        assert_eq!(line, format!("{rank} {at} {}", "x".repeat(*at % 50)));
        *at += 2;
    }
    assert_eq!(next.values().copied().collect::<Vec<_>>(), [100_000, 100_001].repeat(4));
}
#[test]
fn bytes_that_are_no_text_and_lines_without_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = script(2, "printf '\\377\\000\\376 odd\\n'; printf 'one\\rtwo\\r\\nthree\\r'; head -c 200000 /dev/zero | tr '\\0' z; printf '\\nno end'");
    plan.log_folder = Some(folder.path().to_path_buf());
    let (ended, kept) = job(&plan);
    assert_eq!(ended.code, 0);
    for rank in 0..2 {
        let lines: Vec<Vec<u8>> = kept.lines.lock().iter().filter(|(r, ..)| *r == Some(rank)).map(|(_, _, line)| line.clone()).collect();
        assert_eq!(lines[..4], [b"\xff\0\xfe odd".to_vec(), b"one".to_vec(), b"two".to_vec(), b"three".to_vec()]);
        let pieces: Vec<usize> = lines[4..lines.len() - 1].iter().map(Vec::len).collect();
        assert_eq!(pieces, [65536, 65536, 65536, 3392]);
        assert_eq!(lines.last().unwrap(), b"no end");
        let mut want = b"\xff\0\xfe odd\none\rtwo\r\nthree\r".to_vec();
        want.extend([b'z'; 200_000]);
        want.extend(b"\nno end");
        assert!(std::fs::read(folder.path().join(format!("rank-{rank}.log"))).unwrap() == want, "the log is not what the rank wrote");
    }
}
#[test]
fn an_output_that_cannot_be_written() {
    struct Full(usize);
    impl LaunchOutput for Full {
        fn line(&mut self, _: Option<usize>, stream: RankStream, _: &[u8]) -> io::Result<()> {
            assert!(stream == RankStream::Err || self.0 == 0, "asked again");
            self.0 += usize::from(stream == RankStream::Out);
            if stream == RankStream::Out { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }
        fn note(&mut self, _: &str) {}
    }
    // The job goes on to its own end.
    let ended = run(&script(1, "yes | head -c 1000000; echo word >&2; exit 3"), Box::new(Full(0)), &LaunchStop::new()).unwrap();
    assert_eq!((ended.code, ended.output.unwrap().kind()), (3, io::ErrorKind::StorageFull));
    assert_eq!(ended.cause, Some(FirstCause { rank: Some(0), exit: RankExit::Code(3), words: vec!["word".into()] }));
}
#[test]
fn an_end_that_waits_for_a_terminal_that_takes_nothing() {
    struct Stuck(LaunchStop);
    impl LaunchOutput for Stuck {
        fn line(&mut self, _: Option<usize>, _: RankStream, _: &[u8]) -> io::Result<()> {
            self.0.ask(2);
            thread::sleep(Duration::from_secs(3600));
            Ok(())
        }
        fn note(&mut self, _: &str) {}
    }
    let stop = LaunchStop::new();
    let (done, ended) = channel();
    thread::spawn(move || done.send(run(&script(2, "yes"), Box::new(Stuck(stop.clone())), &stop)));
    assert_eq!(ended.recv_timeout(Duration::from_secs(20)).unwrap().unwrap().code, 130);
}
#[test]
fn a_program_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let make = |name: &str, text: &str, mode: u32| {
        std::fs::write(at(name), text).unwrap();
        std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    make("plain", "text", 0o644);
    make("lost", "#!/no/such/interpreter\n", 0o755);
    let path = |name: &str| at(name).display().to_string();
    let check = |program: String, code: u8, words: &str| {
        let marker = at("started");
        let mut plan = LaunchPlan::new(3, &program);
        plan.arguments = vec![marker.clone().into()];
        let (ended, kept) = job_with(&plan, &LaunchStop::new(), 20);
        let error = ended.unwrap_err();
        assert_eq!(error.exit_code(), code, "{error}");
        assert!(error.to_string().contains(words) && error.to_string().ends_with("no rank was started"), "{error}");
        assert!(kept.lines.lock().is_empty());
    };
    check("no-such-program-anywhere".into(), 127, "looked for it in PATH (");
    check(path("nothing"), 127, "at that path");
    check(path("plain"), 126, "chmod +x");
    check(folder.path().display().to_string(), 126, "it is a folder");
    check(path("lost"), 126, "cannot be run");
}
#[test]
fn plans_that_make_no_sense() {
    let check = |plan: &LaunchPlan, words: &str| {
        let error = job_with(plan, &LaunchStop::new(), 20).0.unwrap_err();
        assert!(error.exit_code() == 2 && error.to_string().contains(words), "{error}");
    };
    check(&LaunchPlan::new(0, "true"), "0 ranks: a job has 1 to 4096");
    check(&LaunchPlan::new(5000, "true"), "5000 ranks");
    check(&LaunchPlan::new(1, ""), "no program is named");
    let mut plan = LaunchPlan::new(2, "true");
    plan.hosts = vec![HostSlots { host: "a".into(), ranks: None }];
    plan.engine = Some("local".into());
    check(&plan, "engine local is one host; install openmpi-bin on all hosts and use --engine mpi");
    plan.engine = Some("a b".into());
    check(&plan, "`a b` is no engine's name");
}
