//! Ranks that come and go under a launcher: those who are left meet again, newcomers take their state, and a sum that goes on over all steps is
//! what it is on one rank that nobody disturbs.
//!
//! This program is the ranks as well: the launcher in it starts it.

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use adamant_distributed::{
        elastic::{ElasticRank, ElasticSeat, SeatMet},
        launch::{self, ElasticPlan, LaunchEnded, LaunchOutput, LaunchPlan, LaunchStop, RankStream},
        place::RankPlace,
    };
    use adamant_runtime::{
        DType, ErrorKind, Shape, TensorType,
        communicator::{CollectiveCall, Communicator},
        op::{CollectiveKind, RankUse},
    };
    use rustix::process::{Pid, Signal, kill_process};
    use std::{
        env, io,
        path::{Path, PathBuf},
        process::exit,
        sync::{Arc, Mutex},
        thread,
        time::{Duration, Instant},
    };

    type Check = (&'static str, fn());
    const CHECKS: &[Check] = &[
        ("ranks_killed_at_any_moment", ranks_killed_at_any_moment),
        ("a_rank_that_hangs_and_is_waited_for", a_rank_that_hangs_and_is_waited_for),
        ("a_rank_that_always_fails_and_is_always_started", a_rank_that_always_fails_and_is_always_started),
        ("too_few_ranks_that_go_on", too_few_ranks_that_go_on),
        ("an_end_that_was_asked_for_and_is_gone_on_from", an_end_that_was_asked_for_and_is_gone_on_from),
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

    const PARTS: usize = 8;
    fn mix(mut z: u64) -> u64 {
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// What a part gives in a step that begins at a value.
    fn part(part: usize, step: u64, value: u64) -> u64 {
        mix(value ^ step.wrapping_mul(31) ^ (part as u64) << 40)
    }
    /// Where so many steps lead.
    fn undisturbed(steps: u64) -> u64 {
        (0..steps).fold(1, |value, step| (0..PARTS).map(|p| part(p, step, value)).fold(0, u64::wrapping_add))
    }

    // A rank.
    type Ran<T> = Result<T, ErrorKind>;
    fn gather(on: &ElasticRank, own: [u64; 2]) -> Ran<Vec<[u64; 2]>> {
        let bytes: Vec<u8> = own.iter().flat_map(|word| word.to_le_bytes()).collect();
        let made = TensorType { shape: Shape::new(&[bytes.len()])?, dtype: DType::U8 };
        let call = CollectiveCall::next(on, CollectiveKind::AllGather { used: RankUse::Alike }, made, None);
        let mut blocks = vec![vec![0u8; bytes.len()]; on.size()];
        let done = on.all_gather(&call, &bytes, &mut blocks.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
        // As whoever calls for a tensor does.
        done.inspect_err(|kind| on.abort(&kind.to_string()))?;
        let word = |block: &[u8], k: usize| u64::from_le_bytes(block[8 * k..8 * k + 8].try_into().unwrap());
        Ok(blocks.iter().map(|block| [word(block, 0), word(block, 1)]).collect())
    }
    /// Nobody knows more than the rank that is furthest: those behind take its step and value.
    fn share(on: &ElasticRank, state: &mut Option<(u64, u64)>) -> Ran<()> {
        let all = gather(on, state.map_or([0, 0], |(step, value)| [step + 1, value]))?;
        let most = all.iter().map(|[step, _]| *step).max().unwrap();
        // More than one step apart two ranks that have begun cannot be.
        if let Some([step, _]) = all.iter().find(|[step, _]| *step != 0 && step + 1 < most) {
            println!("apart {step} {most}");
        }
        if most == 0 {
            *state = Some((0, 1));
        } else if state.is_none_or(|(step, _)| step + 1 < most) && env::var("ADAMANT_TEST_KEEPS").is_err() {
            let ahead = all.iter().find(|[step, _]| *step == most).unwrap();
            *state = Some((ahead[0] - 1, ahead[1]));
        }
        state.get_or_insert((0, 1));
        Ok(())
    }
    fn one_step(on: &ElasticRank, (step, value): (u64, u64)) -> Ran<u64> {
        let (rank, size) = (on.rank(), on.size());
        let held = PARTS * rank / size..PARTS * (rank + 1) / size;
        let own = held.map(|p| part(p, step, value)).fold(0, u64::wrapping_add);
        // In two calls: a rank may see a death between them.
        let low = gather(on, [own & 0xFFFF_FFFF, 0])?;
        let high = gather(on, [own >> 32, 0])?;
        Ok(low.iter().zip(&high).map(|(low, high)| low[0] | high[0] << 32).fold(0, u64::wrapping_add))
    }
    fn goes_on(kind: &ErrorKind) -> bool {
        matches!(kind, ErrorKind::PeerLost { .. })
    }
    fn rank(program: &str) {
        let place = RankPlace::from_environment().unwrap();
        println!("pid {}", std::process::id());
        if program == "fails" && place.rank == 1 {
            exit(1);
        }
        let seat = ElasticSeat::from_environment(&place).unwrap().unwrap();
        let stop = PathBuf::from(env::var("ADAMANT_TEST_STOP").unwrap());
        let (mut state, mut lost): (Option<(u64, u64)>, Option<ErrorKind>) = (None, None);
        loop {
            let on = match seat.meet(lost.as_ref(), &|| false) {
                Ok(SeatMet::Group(on, _)) => on,
                Ok(SeatMet::Ended(signal)) => exit(128 + signal),
                Ok(SeatMet::GaveUp) => exit(9),
                Err(kind) => {
                    println!("gave up: {kind}");
                    exit(if goes_on(&kind) { 7 } else { 1 });
                }
            };
            match go_on(&seat, &on, &mut state, (&place, program), &stop) {
                Ok(true) => {
                    let (step, value) = state.unwrap();
                    println!("end {step} {value}");
                    return;
                }
                Ok(false) => lost = None,
                Err(kind) if goes_on(&kind) => lost = Some(kind),
                Err(kind) => {
                    println!("failed: {kind}");
                    exit(1);
                }
            }
        }
    }
    /// Steps until the end, or until a newcomer waits.
    fn go_on(seat: &ElasticSeat, on: &ElasticRank, state: &mut Option<(u64, u64)>, (place, program): (&RankPlace, &str), stop: &Path) -> Ran<bool> {
        share(on, state)?;
        println!("met {} of {} at {}", on.rank(), on.size(), state.unwrap().0);
        loop {
            let (step, value) = state.unwrap();
            let next = one_step(on, (step, value))?;
            *state = Some((step + 1, next));
            if program == "asked" && place.rank == 1 && stop.exists() {
                exit(143);
            }
            let asked = gather(on, [u64::from(program != "asked" && stop.exists()), u64::from(seat.is_called())])?;
            if asked.iter().any(|[ends, _]| *ends == 1) {
                return Ok(true);
            }
            if asked.iter().any(|[_, called]| *called == 1) {
                return Ok(false);
            }
            // Not all of a shared machine.
            thread::sleep(Duration::from_micros(200));
        }
    }

    // Who starts them.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<(Option<usize>, String)>>>);
    impl LaunchOutput for Lines {
        fn line(&mut self, rank: Option<usize>, _: RankStream, line: &[u8]) -> io::Result<()> {
            self.0.lock().unwrap().push((rank, String::from_utf8_lossy(line).into_owned()));
            Ok(())
        }
        fn note(&mut self, text: &str) {
            self.0.lock().unwrap().push((None, text.to_owned()));
        }
    }
    impl Lines {
        fn of(&self, begins: &str) -> Vec<(Option<usize>, String)> {
            let lines = self.0.lock().unwrap();
            lines.iter().filter_map(|(rank, line)| Some((*rank, line.strip_prefix(begins)?.to_owned()))).collect()
        }
        fn pids(&self) -> Vec<(usize, i32)> {
            self.of("pid ").into_iter().map(|(rank, pid)| (rank.unwrap(), pid.parse().unwrap())).collect()
        }
        fn text(&self) -> String {
            self.0.lock().unwrap().iter().map(|(rank, line)| format!("{rank:?} {line}\n")).collect()
        }
        fn wait(&self, what: &str, is: impl Fn(&Lines) -> bool) {
            let begun = Instant::now();
            while !is(self) {
                assert!(begun.elapsed() < Duration::from_secs(30), "{what}:\n{}", self.text());
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
    fn lives(pid: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with(['Z', 'X']))
    }
    fn signal(pid: i32, signal: Signal) {
        // It may have ended.
        let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
    }
    struct Job {
        lines: Lines,
        stop: PathBuf,
        launch: LaunchStop,
        thread: Option<thread::JoinHandle<LaunchEnded>>,
        _folder: tempfile::TempDir,
    }
    impl Job {
        fn start(program: &str, ranks: usize, elastic: ElasticPlan, timeout: Duration, more: &[(&str, &str)]) -> Job {
            let folder = tempfile::tempdir().unwrap();
            let stop = folder.path().join("stop");
            let mut plan = LaunchPlan::new(ranks, env::current_exe().unwrap());
            (plan.elastic, plan.max_restarts, plan.timeout) = (Some(elastic), 100_000, Some(timeout));
            let set = [("ADAMANT_TEST_PROGRAM", program), ("ADAMANT_TEST_STOP", stop.to_str().unwrap())];
            plan.environment = set.iter().chain(more).map(|(name, value)| ((*name).into(), (*value).into())).collect();
            let (lines, launch) = (Lines::default(), LaunchStop::new());
            let (output, asked) = (lines.clone(), launch.clone());
            let thread = thread::spawn(move || launch::run(&plan, Box::new(output), &asked).unwrap());
            Job { lines, stop, launch, thread: Some(thread), _folder: folder }
        }
        fn ends(&self) {
            std::fs::write(&self.stop, "").unwrap();
        }
        fn ended(mut self) -> (LaunchEnded, Lines) {
            let begun = Instant::now();
            while !self.thread.as_ref().unwrap().is_finished() {
                assert!(begun.elapsed() < Duration::from_secs(30), "the job hangs:\n{}", self.lines.text());
                thread::sleep(Duration::from_millis(1));
            }
            (self.thread.take().unwrap().join().unwrap(), self.lines.clone())
        }
    }
    impl Drop for Job {
        fn drop(&mut self) {
            (0..2).for_each(|_| self.launch.ask(15));
        }
    }
    fn plan(least: usize, most: usize, left_out: usize) -> ElasticPlan {
        ElasticPlan { least, most, left_out: (left_out, Duration::from_secs(60)) }
    }
    /// Ranks that fail for no fault of their own are started again at once.
    fn forgiving(most: usize) -> ElasticPlan {
        ElasticPlan { least: 1, most, left_out: (100, Duration::from_millis(1)) }
    }
    /// All who ended have one value, which is that of their step.
    fn right(lines: &Lines) -> u64 {
        let ends = lines.of("end ");
        let first = ends.first().unwrap_or_else(|| panic!("nobody ended well:\n{}", lines.text())).1.clone();
        assert!(ends.iter().all(|(_, end)| *end == first), "{ends:?}");
        let (step, value) = first.split_once(' ').unwrap();
        let step = step.parse().unwrap();
        assert_eq!(value.parse::<u64>().unwrap(), undisturbed(step), "after {step} steps");
        assert!(lines.of("apart").is_empty(), "{}", lines.text());
        step
    }

    fn ranks_killed_at_any_moment() {
        for seed in 0..6u64 {
            let (ranks, mut draw) = (2 + seed as usize % 3, seed);
            let mut below = |n: u64| {
                draw = draw.wrapping_add(0x9E37_79B9_7F4A_7C15);
                mix(draw) % n
            };
            let job = Job::start("steps", ranks, forgiving(ranks), Duration::from_secs(10), &[]);
            job.lines.wait("nobody has begun", |lines| !lines.of("met ").is_empty());
            let mut kills = 0;
            while kills < 25 {
                let living: Vec<i32> = job.lines.pids().into_iter().map(|(_, pid)| pid).filter(|pid| lives(*pid)).collect();
                // Never all: what they know would be gone, which is no fault.
                if living.len() > 1 {
                    signal(living[below(living.len() as u64) as usize], Signal::KILL);
                    kills += 1;
                    // Two at once, or while the others meet, or while the newcomer takes the state.
                    if living.len() < 3 || below(3) > 0 {
                        let met = job.lines.of("met ").len();
                        job.lines.wait("nobody goes on", |lines| lines.of("met ").len() > met);
                    }
                }
                thread::sleep(Duration::from_micros(below(20_000)));
            }
            job.ends();
            let (ended, lines) = job.ended();
            assert_eq!(ended.code, 0, "{}", lines.text());
            let steps = right(&lines);
            let met = lines.of("met ").len();
            println!("  seed {seed}: {ranks} ranks, {kills} kills, {steps} steps, {met} meetings");
            assert!(lines.pids().into_iter().all(|(_, pid)| !lives(pid)));
        }
        // A rank that is behind and does not take the state ends otherwise: what this test looks at can fail.
        let job = Job::start("steps", 3, forgiving(3), Duration::from_secs(10), &[("ADAMANT_TEST_KEEPS", "1")]);
        job.lines.wait("nobody has begun", |lines| lines.of("met ").len() >= 3);
        thread::sleep(Duration::from_millis(20));
        signal(job.lines.pids()[1].1, Signal::KILL);
        job.lines.wait("no newcomer", |lines| lines.of("met ").iter().filter(|(_, met)| met.contains("of 3")).count() >= 6);
        job.ends();
        let ends = job.ended().1.of("end ");
        assert!(ends.iter().any(|(_, end)| *end != ends[0].1), "{ends:?}");
    }
    fn a_rank_that_hangs_and_is_waited_for() {
        let job = Job::start("steps", 3, plan(1, 3, 100), Duration::from_secs(1), &[]);
        job.lines.wait("nobody has begun", |lines| lines.of("met ").len() >= 3);
        signal(job.lines.pids()[0].1, Signal::STOP);
        job.lines.wait("nobody is given up", |lines| lines.text().contains("the others have given it up"));
        job.lines.wait("no newcomer", |lines| lines.text().contains("3 of 3 ranks go on"));
        job.ends();
        let (ended, lines) = job.ended();
        assert_eq!(ended.code, 0, "{}", lines.text());
        right(&lines);
    }
    fn a_rank_that_always_fails_and_is_always_started() {
        let job = Job::start("fails", 3, plan(1, 3, 3), Duration::from_secs(10), &[]);
        job.lines.wait("it is not left out", |lines| lines.text().contains("rank 1 failed: exit code 1; it is left out: it failed 3 times within 1m"));
        job.lines.wait("the others do not go on", |lines| lines.of("met ").iter().any(|(_, met)| met.contains("of 2")));
        job.ends();
        let (ended, lines) = job.ended();
        assert_eq!((ended.code, ended.starts), (0, 3), "{}", lines.text());
        right(&lines);
    }
    fn too_few_ranks_that_go_on() {
        let job = Job::start("steps", 3, plan(3, 3, 1), Duration::from_secs(10), &[]);
        job.lines.wait("nobody has begun", |lines| lines.of("met ").len() >= 3);
        signal(job.lines.pids()[2].1, Signal::KILL);
        let (ended, lines) = job.ended();
        let told = lines.of("gave up: ");
        assert_eq!((ended.code, told.len()), (137, 2), "{}", lines.text());
        assert!(told.iter().all(|(_, why)| why.contains("2 ranks are left, 3 are needed, and no more are started")), "{told:?}");
    }
    fn an_end_that_was_asked_for_and_is_gone_on_from() {
        let job = Job::start("asked", 3, plan(1, 3, 100), Duration::from_secs(10), &[]);
        job.lines.wait("nobody has begun", |lines| lines.of("met ").len() >= 3);
        // One ends by itself as if by a signal, without a word to the others: they want to meet again, and are told.
        job.ends();
        let (ended, lines) = job.ended();
        assert_eq!((ended.code, ended.starts), (143, 1), "{}", lines.text());
        assert!(lines.of("end ").is_empty());
    }
}
