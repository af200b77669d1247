//! A run while strangers call it from its first moment to its last: the same bits, at the same pace; and where it listens.
use super::{JoinOptions, crowd};
use crate::{
    distributed::{
        CommonOptions,
        job::{RankedTraining, set},
    },
    torture::{CaseDraw, TortureClaim, claim, sha256},
};
use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

/// Slower by this at most, in the shortest of several runs each.
const SLOWER: f64 = 1.05;
/// How often pairs are run anew where the machine is not quiet.
const RETRIES: usize = 3;
const RANKS: usize = 2;
const DEADLINE: Duration = Duration::from_secs(300);

pub fn claims(options: &JoinOptions) -> Vec<TortureClaim> {
    let common = CommonOptions { program: options.program.clone(), ..CommonOptions::local() };
    let (program, description) = match RankedTraining::with_short_steps(&common) {
        Ok(made) => made,
        Err(e) => return vec![claim("the program", |_| Err(e))],
    };
    let mut listens = Ok(BTreeMap::new());
    let text = format!("{RANKS} ranks of `adamant launch` under siege: the sha256 of a run in peace, and {:.0} % slower at most", (SLOWER - 1.0) * 100.0);
    let besieged = claim(&text, |claim| {
        let mut want = None;
        let mut seen = Vec::new();
        for attempt in 1..=RETRIES {
            let (mut peaces, mut sieges, mut came) = (Vec::new(), Vec::new(), 0);
            for pair in 0..options.pairs {
                // Each is first as often as the other.
                for k in 0..2 {
                    let under = (pair + k) % 2 == 1;
                    let run = program.place(&format!("siege-{attempt}-{pair}-{k}"));
                    let (seconds, strangers) = one(&program, &description, &run, under.then_some(options.half_open.min(2_000)), &mut listens)?;
                    let bits = [sha256(&run.join("weights.safetensors"))?, sha256(&run.join("metrics.jsonl"))?];
                    let want = want.get_or_insert_with(|| bits.clone());
                    claim.count(if bits == *want { Ok(()) } else { Err(format!("pair {pair}, under siege: {under}: other bits")) });
                    (if under { &mut sieges } else { &mut peaces }).push(seconds);
                    came += strangers;
                    let _ = fs::remove_dir_all(&run);
                }
            }
            // What else the machine does only makes runs longer: the shortest of each say most.
            let ratio = shortest(&sieges) / shortest(&peaces);
            let rounded = |x: f64| (x * 1e3).round() / 1e3;
            let medians = [median(&mut peaces), median(&mut sieges)].map(rounded);
            seen.push(
                serde_json::json!({ "of_the_shortest": rounded(ratio), "shortest_seconds": rounded(shortest(&peaces)), "medians": medians, "strangers": came }),
            );
            if ratio <= SLOWER {
                claim.count(Ok(()));
                break;
            }
            if attempt == RETRIES {
                claim.count(Err(format!("under siege it took {ratio:.3} times as long, {RETRIES} times")));
            }
        }
        claim.see(serde_json::json!(seen));
        Ok(())
    });
    let text = "whoever of the job listens, listens on loopback (/proc/net/tcp, tcp6), from the first moment to the last";
    let loopback = claim(text, |claim| {
        let seen = listens?;
        for (at, times) in &seen {
            let is_loopback = at.starts_with("127.") || at.starts_with("[::1]");
            claim.count(if is_loopback { Ok(()) } else { Err(format!("{at} is listened at ({times} looks)")) });
        }
        claim.see(serde_json::json!({ "sockets": seen.len(), "looks": seen.values().sum::<usize>() }));
        Ok(())
    });
    vec![besieged, loopback]
}
fn shortest(of: &[f64]) -> f64 {
    of.iter().copied().fold(f64::INFINITY, f64::min)
}
fn median(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}
type Listening = Result<BTreeMap<String, usize>, String>;
/// One run; how long it took, and how many strangers came.
fn one(program: &RankedTraining, description: &Path, run: &Path, siege: Option<usize>, listens: &mut Listening) -> Result<(f64, usize), String> {
    let mut command = Command::new(program.program());
    command.args(["launch", "-n", &RANKS.to_string(), "--max-restarts", "0", "--", "adamant", "train"]).arg(description);
    command.arg("--run").arg(run).args(["--quiet", "--no-control", "--threads", "1"]).args(set(&["iterations=6000", "checkpoint.every=2000"]));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let begun = Instant::now();
    let mut launcher = command.spawn().map_err(|e| e.to_string())?;
    let over = Arc::new(AtomicBool::new(false));
    let came = Arc::new(AtomicUsize::new(0));
    let mut strangers = None;
    let mut looked = Instant::now() - Duration::from_secs(1);
    let status = loop {
        if let Some(status) = launcher.try_wait().map_err(|e| e.to_string())? {
            break status;
        }
        if begun.elapsed() > DEADLINE {
            let _ = launcher.kill();
            let _ = launcher.wait();
            return Err("the run hangs".into());
        }
        // Often in the beginning, while ranks meet; a run in peace is looked at as often.
        let pause = if begun.elapsed() < Duration::from_millis(500) { Duration::from_millis(10) } else { Duration::from_millis(200) };
        if looked.elapsed() >= pause {
            looked = Instant::now();
            let found = listening(launcher.id());
            // The launcher's own socket is there to the end; those of ranks close when all have met.
            let lasting = found.iter().find(|(_, process)| *process == launcher.id());
            if let (Some(many), None, Some((at, _))) = (siege, &strangers, lasting) {
                strangers = Some(besiege(*at, many, over.clone(), came.clone()));
            }
            if let Ok(seen) = listens {
                found.iter().for_each(|(at, _)| *seen.entry(at.to_string()).or_default() += 1);
            }
        }
        thread::sleep(Duration::from_millis(2));
    };
    let seconds = begun.elapsed().as_secs_f64();
    over.store(true, SeqCst);
    if let Some(strangers) = strangers {
        strangers.join().map_err(|_| "the siege panicked")?;
    }
    let told = told(&mut launcher);
    if !status.success() || told.contains("panicked") {
        return Err(format!("the job ended with {status}: {told}"));
    }
    match (siege, came.load(SeqCst)) {
        (Some(_), 0) => Err("no stranger came near the run".into()),
        (_, came) => Ok((seconds, came)),
    }
}
fn told(launcher: &mut Child) -> String {
    use std::io::Read;
    let mut text = String::new();
    let _ = launcher.stderr.take().map(|mut pipe| pipe.read_to_string(&mut text));
    text.trim().into()
}
/// Strangers come, as many a second as do not take the cores from the run, and stay; some say half of something, some send noise.
fn besiege(at: SocketAddr, many: usize, over: Arc<AtomicBool>, came: Arc<AtomicUsize>) -> thread::JoinHandle<()> {
    crowd::raise_descriptors();
    thread::spawn(move || {
        let (mut stay, mut draw): (Vec<TcpStream>, _) = (Vec::new(), CaseDraw::new(at.port().into()));
        for k in 0.. {
            if over.load(SeqCst) {
                break;
            }
            if k % 4 == 3 {
                // Its backlog may be full: then nobody answers.
                if let Ok(mut stream) = TcpStream::connect_timeout(&at, Duration::from_millis(20)) {
                    let _ = stream.write_all(&crowd::changed_frame(&mut draw));
                    came.fetch_add(1, SeqCst);
                }
            } else if let Some(stream) = (stay.len() < many).then(|| crowd::half_of_something(at, k)).flatten() {
                stay.push(stream);
                came.fetch_add(1, SeqCst);
            }
            // At once while ranks meet.
            thread::sleep(if k < 200 { Duration::from_micros(100) } else { Duration::from_millis(5) });
        }
    })
}

/// Where a process and all that it has started listen.
fn listening(of: u32) -> Vec<(SocketAddr, u32)> {
    let processes = descendants(of);
    let mut found = Vec::new();
    for (file, is_6) in [("/proc/net/tcp", false), ("/proc/net/tcp6", true)] {
        let Ok(text) = fs::read_to_string(file) else { continue };
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (Some(local), Some(&"0A"), Some(inode)) = (words.get(1), words.get(3), words.get(9)) else { continue };
            let Some(at) = address(local, is_6) else { continue };
            if let Some(process) = processes.iter().find(|process| holds(**process, inode)) {
                found.push((at, *process));
            }
        }
    }
    found
}
fn descendants(of: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let process = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((process, parent))
        })
        .collect();
    let mut all = vec![of];
    let mut at = 0;
    while at < all.len() {
        let own = all[at];
        all.extend(parents.iter().filter(|(_, parent)| *parent == own).map(|(process, _)| *process));
        at += 1;
    }
    all
}
fn holds(process: u32, inode: &str) -> bool {
    let name = format!("socket:[{inode}]");
    let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|to| to.to_str() == Some(&name))
}
/// An address as `/proc/net/tcp` writes it: words of 32 bits in the machine's order, and the port.
fn address(text: &str, is_6: bool) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let word = |k: usize| u32::from_str_radix(host.get(8 * k..8 * k + 8)?, 16).ok();
    let port = u16::from_str_radix(port, 16).ok()?;
    if !is_6 {
        return Some(SocketAddr::from((word(0)?.to_ne_bytes(), port)));
    }
    let words: Vec<u8> = (0..4).map(word).collect::<Option<Vec<u32>>>()?.into_iter().flat_map(u32::to_ne_bytes).collect();
    let octets: [u8; 16] = words.try_into().ok()?;
    Some(SocketAddr::from((octets, port)))
}
