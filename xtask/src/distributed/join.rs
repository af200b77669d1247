//! Who may join, as a whole: strangers of every kind are refused in words and let go of, crowds and noise keep no rank out and cost no
//! memory, a run under them keeps its bits and its pace, and nobody listens beyond this host.
pub(super) mod crowd;
mod fuzz;
mod refusals;
mod siege;

use super::rank::opened;
use crate::torture::{TortureClaim, claim};
use adamant_distributed::{
    join::{
        frame::{ControlFrame, FRAME_CAP, FrameKind, FrameReader, VERSION},
        handshake::JoinRefusal,
    },
    place::{MeetingPlace, RankPlace},
};
use serde::{Deserialize, Serialize};
use std::{
    io::{Read, Write},
    net::TcpStream,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Options of `join`.
#[derive(clap::Args)]
pub struct JoinOptions {
    /// Frames that are changed and read
    #[arg(long, default_value_t = 10_000_000)]
    n: u64,
    /// Connections that say nothing, or half of something
    #[arg(long, default_value_t = 10_000)]
    half_open: usize,
    /// Strangers of each kind
    #[arg(long, default_value_t = 20)]
    strangers: usize,
    /// Pairs of runs, of which one is under siege
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Which frames
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The program, instead of building it
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// One JSON document instead of text
    #[arg(long)]
    pub(super) json: bool,
}
pub fn claims(options: &JoinOptions) -> Vec<TortureClaim> {
    let mut claims = refusals::claims(options.strangers);
    claims.push(claim(&format!("{} connections that say nothing keep no rank out, and cost rank 0 a MiB at most", options.half_open), |claim| {
        crowd::half_open(options.half_open, claim)
    }));
    claims.push(claim(&format!("{} frames that were changed: a fault in words or the frame itself, no panic, nobody comes in", options.n), |claim| {
        fuzz::frames(options.n, options.seed, claim)
    }));
    claims.push(claim("changed frames where rank 0 listens: the ranks join, and rank 0 needs a MiB more at most", |claim| {
        crowd::noise((options.n / 1000).clamp(200, 10_000) as usize, options.seed, claim)
    }));
    claims.extend(siege::claims(options));
    claims
}

/// How a rank joins.
#[derive(Serialize, Deserialize)]
pub struct JoinTask {
    pub ways: JoinWays,
    /// the rank that is meant, where one is
    pub who: usize,
}
#[derive(Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum JoinWays {
    /// as it should
    Peaceful,
    /// in another version of the protocol
    Strange,
}
/// What a rank that joined has to say.
#[derive(Serialize, Deserialize)]
pub struct JoinReport {
    pub seconds: f64,
    /// the most memory that it has had, in bytes
    pub most: u64,
}
/// Meets the others; as one of another version, says so in the words of who refuses it.
///
/// # Errors
/// The refusal.
pub fn rank(task: &JoinTask, place: &RankPlace) -> Result<JoinReport, String> {
    let begun = Instant::now();
    if task.ways == JoinWays::Strange && place.rank == task.who {
        return Err(format!("rank {}: {}", place.rank, strange(place)?));
    }
    let group = opened(place).map_err(|e| format!("rank {}: {e}", place.rank))?;
    let report = JoinReport { seconds: begun.elapsed().as_secs_f64(), most: most_memory("/proc/self/status")? };
    drop(group);
    Ok(report)
}
/// Calls rank 0 as version 99 does.
fn strange(place: &RankPlace) -> Result<String, String> {
    let Some(MeetingPlace::At { host, port }) = &place.meeting else { return Err("no place to meet".into()) };
    let mut bytes = ControlFrame { kind: FrameKind::Hello, epoch: place.epoch, number: 0, body: vec![1, 2, 3] }.encode();
    bytes[4] = 99;
    let answer = said_to((host, *port), &bytes)?;
    match refusal(&answer) {
        Some(body) if body == JoinRefusal::Version(VERSION).encode() => Ok(JoinRefusal::Version(VERSION).to_string()),
        other => Err(format!("it is answered {other:?}, which tells of no version")),
    }
}
/// All that is answered to some bytes, until the connection is closed, which is soon.
fn said_to(at: (&str, u16), bytes: &[u8]) -> Result<Vec<u8>, String> {
    let until = Instant::now() + Duration::from_secs(5);
    let mut stream = loop {
        match TcpStream::connect(at) {
            Ok(stream) => break stream,
            Err(e) if Instant::now() > until => return Err(format!("nobody listens: {e}")),
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    // Who is refused is let go of, whether or not it goes.
    stream.set_read_timeout(Some(LET_GO)).map_err(|e| e.to_string())?;
    stream.write_all(bytes).map_err(|e| e.to_string())?;
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(answer),
            Ok(n) => answer.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return Ok(answer),
            Err(e) => return Err(format!("the connection of who was answered {} bytes is still open after {LET_GO:?}: {e}", answer.len())),
        }
    }
}
const LET_GO: Duration = Duration::from_millis(900);
/// The body of the frame that refuses, where there is one.
fn refusal(answer: &[u8]) -> Option<Vec<u8>> {
    let mut reader = FrameReader::new(FRAME_CAP);
    reader.push(answer);
    while let Ok(Some(frame)) = reader.next_frame() {
        if frame.kind == FrameKind::Refused {
            return Some(frame.body);
        }
    }
    None
}
/// The most memory that a process has had, in bytes.
fn most_memory(status: &str) -> Result<u64, String> {
    let text = std::fs::read_to_string(status).map_err(|e| format!("{status}: {e}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("VmHWM is not told")?;
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().map(|kib| kib << 10).map_err(|e| e.to_string())
}
