//! The engine `local` with processes as ranks: right bits, and what the others see when one is killed, stopped, or calls something else.
//!
//! This program is the ranks as well: it starts itself. Every process that it started is killed when its handle goes.
mod common;

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use super::common::*;
    use adamant_distributed::local;
    use adamant_runtime::{
        DType, ErrorKind,
        communicator::{Communicator, EngineRequest, JoinToken, ReductionTree, engine_named},
        op::{CollectiveKind, RankUse, ReduceOp},
    };
    use rustix::process::{Pid, Signal, kill_process};
    use std::{
        env, fs,
        io::{BufRead, BufReader, Write},
        net::TcpListener,
        path::PathBuf,
        process::{Child, Command, Stdio},
        sync::mpsc::{Receiver, channel},
        thread,
        time::{Duration, Instant, SystemTime},
    };

    type Check = (&'static str, fn());
    const CHECKS: &[Check] = &[
        ("ranks_that_reduce_to_other_bits", ranks_that_reduce_to_other_bits),
        ("a_killed_rank_that_others_wait_for", a_killed_rank_that_others_wait_for),
        ("a_rank_killed_while_it_joins", a_rank_killed_while_it_joins),
        ("a_stopped_rank_that_others_wait_for_too_long", a_stopped_rank_that_others_wait_for_too_long),
        ("a_rank_that_is_blamed_for_one_that_it_waits_for_itself", a_rank_that_is_blamed_for_one_that_it_waits_for_itself),
        ("ranks_that_differ_and_are_not_told", ranks_that_differ_and_are_not_told),
        ("a_rank_that_ends_the_group_and_is_not_heard", a_rank_that_ends_the_group_and_is_not_heard),
        ("what_is_left_when_ranks_are_gone", what_is_left_when_ranks_are_gone),
    ];
    pub fn main() {
        if let Ok(program) = env::var("ADAMANT_TEST_PROGRAM") {
            return rank(&program);
        }
        // As the harness's own: words filter, options are for it.
        let words: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
        if env::args().any(|word| word == "--list") {
            CHECKS.iter().for_each(|(name, _)| println!("{name}: test"));
            return;
        }
        for (name, check) in CHECKS.iter().filter(|(name, _)| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()))) {
            let start = Instant::now();
            check();
            println!("{name} ... ok, {:.1} s", start.elapsed().as_secs_f64());
        }
    }

    // A rank.
    fn now() -> u128 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros()
    }
    fn say(what: &str) {
        // Whoever listened may be gone.
        let _ = writeln!(std::io::stdout(), "{} {what}", now());
    }
    fn rank(program: &str) {
        let number = |name: &str| env::var(name).unwrap().parse::<usize>().unwrap();
        let (rank, size) = (number("RANK"), number("SIZE"));
        let request = EngineRequest {
            rank,
            size,
            local: (size, rank),
            epoch: 0,
            meeting: Some(("127.0.0.1".into(), number("PORT") as u16)),
            listener: None,
            token: Some(JoinToken::File(PathBuf::from(env::var("TOKEN").unwrap()))),
            bind: None,
            timeout: Duration::from_millis(number("TIMEOUT") as u64),
        };
        say("starts");
        let on = match (engine_named("local").unwrap().open)(&request) {
            Ok(on) => on,
            Err(e) => return say(&told(&e)),
        };
        say("joined");
        match run(&*on, program) {
            Ok(()) => say("done"),
            Err(e) => {
                say(&told(&e));
                on.abort(&e.to_string());
            }
        }
    }
    fn told(e: &ErrorKind) -> String {
        match e {
            ErrorKind::PeerLost { rank, why, op, seq } => format!("lost {rank} in call {seq}, {op}: {why}"),
            ErrorKind::PeerFailed { rank, message } => format!("failed {rank}: {message}"),
            ErrorKind::RanksDiffer { rank, own, other, .. } => format!("differ {rank}: {own} / {other}"),
            e => format!("error {e}"),
        }
    }
    type Ran = Result<(), ErrorKind>;
    fn gather(on: &dyn Communicator, n: usize) -> Ran {
        let mut blocks = vec![vec![0; n]; on.size()];
        on.all_gather(&call(on, GATHER, DType::U8, n), &vec![1; n], &mut blocks.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>())
    }
    fn reduce(on: &dyn Communicator, n: usize) -> Ran {
        let (own, mut sum) = (vec![0; 4 * n], vec![0; 4 * n]);
        on.all_reduce(&call(on, SUM, DType::F32, n), &ReductionTree::of_ranks(ReduceOp::Sum, DType::F32, on.size()), &own, &mut sum)
    }
    fn scatter(on: &dyn Communicator, n: usize) -> Ran {
        let (own, mut block) = (vec![0; 4 * n * on.size()], vec![0; 4 * n]);
        let kind = CollectiveKind::ReduceScatter { reduce: ReduceOp::Sum, parts: 0 };
        on.reduce_scatter(&call(on, kind, DType::F32, n), &ReductionTree::of_ranks(ReduceOp::Sum, DType::F32, on.size()), &own, &mut block)
    }
    fn cast(on: &dyn Communicator, n: usize, root: usize) -> Ran {
        on.broadcast(&call(on, CollectiveKind::Broadcast { root, used: RankUse::Alike }, DType::U8, n), root, &mut vec![0; n])
    }
    fn exchange(on: &dyn Communicator, n: usize) -> Ran {
        let (block, mut from) = (vec![0; n], vec![vec![0; n]; on.size()]);
        let to: Vec<&[u8]> = vec![&block; on.size()];
        on.all_to_all(&call(on, CollectiveKind::AllToAll, DType::U8, n), &to, &mut from.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>())
    }
    fn pass(on: &dyn Communicator, n: usize) -> Ran {
        let (rank, size) = (on.rank(), on.size());
        let (next, before, mut bytes) = ((rank + 1) % size, (rank + size - 1) % size, vec![0; n]);
        let send = |bytes: &[u8]| on.send(&call(on, CollectiveKind::Send { to: next }, DType::U8, n), next, bytes);
        let receive = |bytes: &mut [u8]| on.receive(&call(on, CollectiveKind::Receive { from: before }, DType::U8, n), before, bytes);
        if rank == 0 {
            send(&bytes)?;
            receive(&mut bytes)
        } else {
            receive(&mut bytes)?;
            send(&bytes)
        }
    }
    fn split(on: &dyn Communicator) -> Ran {
        let half = on.split(&call(on, CollectiveKind::Barrier, DType::U8, 0), &[1, 0])?;
        half.map_or(Ok(()), |half| gather(&*half, 8))
    }
    const LOOPS: &[(&str, fn(&dyn Communicator) -> Ran)] = &[
        ("reduce", |on| reduce(on, 1000)),
        ("reduce_long", |on| reduce(on, 2_000_000)),
        ("scatter", |on| scatter(on, 300_000)),
        ("gather", |on| gather(on, 700_000)),
        ("exchange", |on| exchange(on, 200_000)),
        ("cast", |on| cast(on, 2_000_000, 1)),
        ("pass", |on| pass(on, 1_000_000)),
        ("split", split),
        ("barrier", |on| gather(on, 0)),
    ];
    fn run(on: &dyn Communicator, program: &str) -> Ran {
        if let Some((_, round)) = LOOPS.iter().find(|(name, _)| *name == program) {
            loop {
                round(on)?;
            }
        }
        let odd = on.rank() == 1;
        match program {
            "bits" => {
                let mut all = Vec::new();
                for (k, (elements, parts)) in
                    [(0, on.size()), (1, 13), (1003, on.size()), (1003, 13), (900_001, 13), (2_500_003, on.size())].into_iter().enumerate()
                {
                    let r = Reduction { seed: 77 + k as u64, by: ReduceOp::Sum, elements, parts };
                    let mut sum = vec![0; 4 * elements];
                    on.all_reduce(&call(on, r.kind(), DType::F32, elements), &r.tree::<f32>(on.size()), &r.own::<f32>(on.rank(), on.size()), &mut sum)?;
                    all.extend(sum);
                }
                say(&format!("bits {}", blake3::hash(&all)));
                Ok(())
            }
            "other_op" => {
                if odd {
                    reduce(on, 10)
                } else {
                    gather(on, 10)
                }
            }
            "other_dtype" => {
                let dtype = if odd { DType::F32 } else { DType::I32 };
                let mut sum = [0; 16];
                on.all_reduce(&call(on, SUM, dtype, 4), &ReductionTree::of_ranks(ReduceOp::Sum, dtype, on.size()), &[0; 16], &mut sum)
            }
            "other_shape" => reduce(on, if odd { 2_000_000 } else { 1_000_000 }),
            "other_root" => cast(on, 100, usize::from(odd)),
            "other_order" => {
                if odd {
                    gather(on, 4)?;
                }
                cast(on, 4, 0)?;
                if odd { Ok(()) } else { gather(on, 4) }
            }
            "one_too_many" => {
                gather(on, 4)?;
                if odd { gather(on, 4) } else { Ok(()) }
            }
            "one_too_few" => {
                gather(on, 4)?;
                if odd { Ok(()) } else { gather(on, 4) }
            }
            // Rank 0 waits for rank 2, which waits for rank 1; rank 0 the longest.
            "chain" => {
                let receive = |from: usize| on.receive(&call(on, CollectiveKind::Receive { from }, DType::U8, 8), from, &mut [0; 8]);
                match on.rank() {
                    0 => receive(2),
                    1 => loop {
                        thread::sleep(Duration::from_secs(1));
                    },
                    _ => {
                        thread::sleep(Duration::from_millis(200));
                        receive(1)
                    }
                }
            }
            "says_failed" => {
                gather(on, 4)?;
                if odd {
                    thread::sleep(Duration::from_millis(100));
                    on.abort("a full disk");
                    return Ok(());
                }
                gather(on, 4)
            }
            program => Err(ErrorKind::Argument(program.into())),
        }
    }

    // Who starts them.
    struct Rank {
        child: Child,
        said: Receiver<(u128, String)>,
    }
    impl Drop for Rank {
        fn drop(&mut self) {
            // It may have ended.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
    impl Rank {
        /// The next line that it says, and when; its last is empty.
        fn says(&self, within: f64) -> (u128, String) {
            self.said.recv_timeout(Duration::from_secs_f64(within)).unwrap_or_else(|e| panic!("nothing was said within {within} s: {e}"))
        }
        fn signal(&self, signal: Signal) -> u128 {
            kill_process(Pid::from_child(&self.child), signal).unwrap();
            now()
        }
    }
    struct Ranks {
        ranks: Vec<Rank>,
        port: u16,
        _folder: tempfile::TempDir,
    }
    fn start(program: &str, size: usize, timeout: f64) -> Ranks {
        let folder = tempfile::tempdir().unwrap();
        let (token, port) = (folder.path().join("token"), TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port());
        fs::write(&token, "5a".repeat(32)).unwrap();
        fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let one = |rank: usize| {
            let mut command = Command::new(env::current_exe().unwrap());
            command.env("ADAMANT_TEST_PROGRAM", program).env("RANK", rank.to_string()).env("SIZE", size.to_string()).env("PORT", port.to_string());
            command.env("TOKEN", &token).env("TIMEOUT", ((timeout * 1000.0) as u64).to_string()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let (out, (to, said)) = (child.stdout.take().unwrap(), channel());
            thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    let (when, what) = line.split_once(' ').unwrap_or(("0", ""));
                    let _ = to.send((when.parse().unwrap_or(0), what.to_owned()));
                }
            });
            Rank { child, said }
        };
        Ranks { ranks: (0..size).map(one).collect(), port, _folder: folder }
    }
    impl Ranks {
        fn joined(&self) {
            for rank in &self.ranks {
                assert_eq!((rank.says(20.0).1, rank.says(20.0).1), ("starts".into(), "joined".into()));
            }
        }
        /// What each says after it joined, and when.
        fn outcomes(&self, within: f64) -> Vec<(u128, String)> {
            self.ranks.iter().map(|rank| rank.says(within)).collect()
        }
    }
    fn told_lost(said: &str, rank: usize) -> bool {
        said.starts_with(&format!("lost {rank} "))
    }

    fn ranks_that_reduce_to_other_bits() {
        for size in [1, 2, 3, 4] {
            let ranks = start("bits", size, 30.0);
            ranks.joined();
            // Of 13 parts, whatever the number of ranks; of ranks, as the test adds them itself.
            let mut all = Vec::new();
            for (k, (elements, parts)) in [(0, size), (1, 13), (1003, size), (1003, 13), (900_001, 13), (2_500_003, size)].into_iter().enumerate() {
                all.extend(Reduction { seed: 77 + k as u64, by: ReduceOp::Sum, elements, parts }.all::<f32>());
            }
            let expected = format!("bits {}", blake3::hash(&all));
            for (_, said) in ranks.outcomes(60.0) {
                assert_eq!(said, expected, "{size} ranks");
            }
            assert!(ranks.outcomes(10.0).iter().all(|(_, said)| said == "done"));
        }
    }
    fn count(name: &str, usual: u64) -> u64 {
        env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
    }
    fn is_soon(what: &str, mut late: Vec<f64>) {
        late.sort_by(f64::total_cmp);
        let (median, most) = (late[late.len() / 2], late[late.len() - 1]);
        println!("  {what}: {} survivors, median {median:.1} ms, most {most:.1} ms", late.len());
        assert!(median <= 50.0 && most <= 1000.0, "{late:?}");
    }
    fn a_killed_rank_that_others_wait_for() {
        let mut late = Vec::new();
        for round in 0..count("ADAMANT_KILLS", 2 * LOOPS.len() as u64) {
            let (program, _) = LOOPS[round as usize % LOOPS.len()];
            let victim = drawn(5, round) as usize % 3;
            let ranks = start(program, 3, 20.0);
            ranks.joined();
            thread::sleep(Duration::from_micros(drawn(6, round) % 60_000));
            let killed = ranks.ranks[victim].signal(Signal::KILL);
            for (rank, of) in ranks.ranks.iter().enumerate().filter(|(rank, _)| *rank != victim) {
                let (when, said) = of.says(10.0);
                assert!(told_lost(&said, victim), "{program}, rank {rank} of killed {victim}: {said}");
                late.push(when.saturating_sub(killed) as f64 / 1e3);
            }
        }
        is_soon("killed in a collective", late);
    }
    /// Who has proved that it is there, or was heard to begin to, is missed at once; who never came is missed at the timeout.
    fn a_rank_killed_while_it_joins() {
        let (mut late, mut at_timeout) = (Vec::new(), 0);
        for round in 0..count("ADAMANT_KILLS", 12) {
            let victim = drawn(7, round) as usize % 3;
            let ranks = start("barrier", 3, 2.0);
            assert_eq!(ranks.ranks[victim].says(10.0).1, "starts");
            thread::sleep(Duration::from_micros(drawn(8, round) % 6000));
            let killed = ranks.ranks[victim].signal(Signal::KILL);
            for (rank, of) in ranks.ranks.iter().enumerate().filter(|(rank, _)| *rank != victim) {
                let (when, said) = std::iter::repeat_with(|| of.says(10.0)).find(|(_, said)| said != "starts" && said != "joined").unwrap();
                // Rank 0 may have ended, for that reason, before somebody reached it.
                let found_nobody = told_lost(&said, 0) && ["nobody listens", "closed in the handshake", "not reached"].iter().any(|words| said.contains(words));
                assert!(told_lost(&said, victim) || found_nobody, "rank {rank} of killed {victim}: {said}");
                let late_by = when.saturating_sub(killed) as f64 / 1e3;
                let never_came = said.contains("did not come") || said.contains("not reached");
                assert!(late_by < if never_came { 2700.0 } else { 1000.0 }, "rank {rank} of killed {victim}: {late_by} ms, {said}");
                if never_came { at_timeout += 1 } else { late.push(late_by) }
            }
        }
        println!("  killed before it came: {at_timeout} survivors told at the timeout");
        if !late.is_empty() {
            is_soon("killed while it joins", late);
        }
    }
    fn a_stopped_rank_that_others_wait_for_too_long() {
        for round in 0..count("ADAMANT_STOPS", 3) {
            let victim = round as usize % 3;
            let ranks = start(["reduce", "pass", "reduce_long"][victim], 3, 2.0);
            ranks.joined();
            thread::sleep(Duration::from_millis(50));
            let stopped = ranks.ranks[victim].signal(Signal::STOP);
            let mut told = Vec::new();
            for (rank, of) in ranks.ranks.iter().enumerate().filter(|(rank, _)| *rank != victim) {
                let (when, said) = of.says(10.0);
                told.push((when.saturating_sub(stopped)) as f64 / 1e6);
                assert!(told_lost(&said, victim) && said.contains("nothing was heard"), "rank {rank} of stopped {victim}: {said}");
            }
            println!("  stopped, timeout 2 s: told after {told:?} s");
            assert!(told.iter().all(|t| (1.95..2.1).contains(t)), "{told:?}");
            // It goes on, and learns that it was given up.
            ranks.ranks[victim].signal(Signal::CONT);
            let said = ranks.ranks[victim].says(10.0).1;
            assert!(said.starts_with("failed") || said.starts_with("lost"), "{said}");
        }
    }
    fn a_rank_that_is_blamed_for_one_that_it_waits_for_itself() {
        let ranks = start("chain", 3, 2.0);
        ranks.joined();
        ranks.ranks[1].signal(Signal::STOP);
        for rank in [0, 2] {
            let said = ranks.ranks[rank].says(10.0).1;
            assert!(told_lost(&said, 1) && said.contains("nothing was heard"), "rank {rank}: {said}");
        }
    }
    fn ranks_that_differ_and_are_not_told() {
        for program in ["other_op", "other_dtype", "other_shape", "other_root", "other_order"] {
            let ranks = start(program, 3, 20.0);
            ranks.joined();
            for (rank, (_, said)) in ranks.outcomes(2.0).into_iter().enumerate() {
                let (peer, calls) = said.strip_prefix("differ ").and_then(|said| said.split_once(": ")).unwrap_or_else(|| panic!("{program}, {rank}: {said}"));
                let (own, other) = calls.split_once(" / ").unwrap();
                let own = own.strip_suffix(&format!(" as rank {rank}")).unwrap_or_else(|| panic!("{program}, {rank} does not name itself: {said}"));
                assert!(own != other && other != "something else" && (peer == "1") == (rank != 1), "{program}, rank {rank}: {said}");
            }
        }
        for (program, left, waits) in [("one_too_many", vec![0, 2], vec![1]), ("one_too_few", vec![1], vec![0, 2])] {
            let ranks = start(program, 3, 20.0);
            ranks.joined();
            let said = ranks.outcomes(2.0);
            left.iter().for_each(|rank| assert_eq!(said[*rank].1, "done", "{program}"));
            waits.iter().for_each(|rank| assert!(said[*rank].1.contains("it left") && said[*rank].1.starts_with("lost"), "{program}: {}", said[*rank].1));
        }
    }
    fn a_rank_that_ends_the_group_and_is_not_heard() {
        let ranks = start("says_failed", 3, 20.0);
        ranks.joined();
        let said = ranks.outcomes(2.0);
        assert_eq!(said[1].1, "done");
        [0, 2].iter().for_each(|rank| assert_eq!(said[*rank].1, "failed 1: a full disk"));
    }
    fn names(folder: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| name.contains("adamant"));
        names.sort();
        names
    }
    /// Does anybody listen at the port?
    fn is_listened_at(port: u16) -> bool {
        let tcp = fs::read_to_string("/proc/net/tcp").unwrap();
        tcp.lines()
            .any(|line| line.split_whitespace().nth(1).is_some_and(|at| at.ends_with(&format!(":{port:04X}"))) && line.split_whitespace().nth(3) == Some("0A"))
    }
    fn what_is_left_when_ranks_are_gone() {
        let before = (names("/dev/shm"), names("/tmp"));
        let ranks = start("reduce", 3, 20.0);
        ranks.joined();
        thread::sleep(Duration::from_millis(50));
        assert!(!is_listened_at(ranks.port), "somebody listens after all have joined");
        let pids: Vec<u32> = ranks.ranks.iter().map(|rank| rank.child.id()).collect();
        let maps = fs::read_to_string(format!("/proc/{}/maps", pids[1])).unwrap();
        assert!(maps.contains("memfd:adamant-ranks"), "the memory has another name: this check sees nothing");
        ranks.ranks.iter().for_each(|rank| _ = rank.signal(Signal::KILL));
        drop(ranks);
        assert_eq!((names("/dev/shm"), names("/tmp")), before);
        assert!(pids.iter().all(|pid| !PathBuf::from(format!("/proc/{pid}")).exists()));
        assert_eq!(local::present(), Ok(()));
    }
}
