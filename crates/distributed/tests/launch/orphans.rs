//! What is left when a launcher is killed: nothing.
use super::*;

/// This is no test: it is the launcher of the next one, in a process that can be killed.
#[test]
fn launcher() {
    let Ok(text) = std::env::var("ADAMANT_TEST_LAUNCHER") else { return };
    struct Printed;
    impl LaunchOutput for Printed {
        fn line(&mut self, rank: Option<usize>, _: RankStream, line: &[u8]) -> io::Result<()> {
            println!("rank {} {}", rank.unwrap_or(99), String::from_utf8_lossy(line));
            Ok(())
        }
        fn note(&mut self, _: &str) {}
    }
    let _ = run(&script(3, &text), Box::new(Printed), &LaunchStop::new());
}
struct Killed(Child);
impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
/// A rank that reads from a terminal in the background would be stopped.
#[test]
fn a_rank_that_reads_what_the_launcher_is_given() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "orphans::launcher", "--nocapture"]).env("ADAMANT_TEST_LAUNCHER", "read -r line && echo took $line || echo nothing");
    let mut launcher = Killed(command.stdout(Stdio::piped()).stdin(Stdio::piped()).spawn().unwrap());
    io::Write::write_all(launcher.0.stdin.as_mut().unwrap(), b"one\ntwo\nthree\n").unwrap();
    let lines: Vec<String> = BufReader::new(launcher.0.stdout.take().unwrap()).lines().map(Result::unwrap).filter(|line| line.starts_with("rank ")).collect();
    assert!(lines.len() == 3 && lines.iter().all(|line| line.ends_with(" nothing")), "{lines:?}");
}
#[test]
fn ranks_that_outlive_a_launcher_that_is_killed() {
    // Some have become the program alone, some have started others; one stops itself.
    let text = "echo port $MASTER_PORT; echo pid $$; sleep 1000 & echo pid $!; setsid true; echo ready; case $RANK in 0) exec sleep 1000;; 1) kill -STOP $$;; *) trap '' TERM HUP INT; while :; do sleep 1; done;; esac";
    for round in 0..6 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "orphans::launcher", "--nocapture"]).env("ADAMANT_TEST_LAUNCHER", text).stdout(Stdio::piped()).stdin(Stdio::null());
        let mut launcher = Killed(command.spawn().unwrap());
        let (mut processes, mut ports, mut ready) = (BTreeSet::new(), BTreeSet::new(), 0);
        for line in BufReader::new(launcher.0.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["rank", _, "pid", pid] => drop(processes.insert(pid.parse::<u32>().unwrap())),
                ["rank", _, "port", port] => drop(ports.insert(port.parse::<u16>().unwrap())),
                ["rank", _, "ready"] => ready += 1,
                _ => {}
            }
            // Also in the middle of the start.
            if ready == if round < 3 { 3 } else { 1 } {
                break;
            }
        }
        let guards = children_of(launcher.0.id());
        assert!(guards.len() >= 2 && processes.iter().all(|process| is_alive(*process)), "{guards:?} {processes:?}");
        processes.extend(guards);
        launcher.0.kill().unwrap();
        launcher.0.wait().unwrap();
        all_gone(&processes.into_iter().collect::<Vec<_>>());
        for port in ports {
            within(5.0, &format!("nobody listens at {port}"), || std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
        }
    }
}
/// Linux ends a rank whose launcher is gone, also where the guard was killed before. (What the rank has started stays then.)
#[cfg(target_os = "linux")]
#[test]
fn ranks_that_outlive_a_launcher_whose_guard_was_killed() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "orphans::launcher", "--nocapture"])
        .env("ADAMANT_TEST_LAUNCHER", "echo pid $$; trap '' TERM; echo ready; while :; do sleep 0.1; done");
    let mut launcher = Killed(command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap());
    let (mut ranks, mut ready) = (Vec::new(), 0);
    let mut lines = BufReader::new(launcher.0.stdout.take().unwrap()).lines();
    while ready < 3 {
        let line = lines.next().unwrap().unwrap();
        ranks.extend(line.split_once(" pid ").map(|(_, pid)| pid.parse::<u32>().unwrap()));
        ready += usize::from(line.ends_with("ready"));
    }
    let guards: Vec<u32> = children_of(launcher.0.id()).into_iter().filter(|process| !ranks.contains(process)).collect();
    assert_eq!((ranks.len(), guards.len()), (3, 1));
    assert!(Command::new("kill").args(["-9", &guards[0].to_string()]).status().unwrap().success());
    all_gone(&guards);
    launcher.0.kill().unwrap();
    all_gone(&ranks);
}
fn children_of(process: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()).collect()
}
