//! Crowds where rank 0 listens, which is a process, so that its memory can be told.
use super::{JoinReport, JoinTask, JoinWays};
use crate::{
    distributed::{
        job::{JobMeeting, RankJob},
        rank::reports,
    },
    torture::{CaseDraw, TortureClaim},
};
use adamant_distributed::join::frame::{ControlFrame, FrameKind};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    io::Write,
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

const RANKS: usize = 3;
/// Memory that a crowd may cost.
const MOST: u64 = 1 << 20;

/// Who waits there: connections, of which each says something first. They stay until they are dropped.
type Crowd = Vec<TcpStream>;
pub fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be raised there are fewer connections, which is seen.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
/// One that has begun, and says no more.
pub fn half_of_something(at: SocketAddr, k: usize) -> Option<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(1)).ok()?;
    match k % 3 {
        0 => {}
        1 => stream.write_all(b"adm").ok()?,
        _ => stream.write_all(&ControlFrame { kind: FrameKind::Beat, epoch: 0, number: 0, body: vec![7; 900] }.encode()[..800]).ok()?,
    }
    Some(stream)
}
/// A frame of which some bytes are others.
pub fn changed_frame(draw: &mut CaseDraw) -> Vec<u8> {
    let kind = FrameKind::ALL[draw.below(FrameKind::ALL.len() as u64) as usize];
    let body: Vec<u8> = (0..draw.below(200)).map(|_| draw.next() as u8).collect();
    let mut bytes = ControlFrame { kind, epoch: draw.below(8), number: draw.below(3), body }.encode();
    for _ in 0..draw.below(4) {
        let at = draw.below(bytes.len() as u64) as usize;
        match draw.below(4) {
            0 => bytes[at] ^= 1 << draw.below(8),
            1 => bytes[at] = draw.next() as u8,
            2 => bytes.truncate(at.max(1)),
            _ => bytes.insert(at, draw.next() as u8),
        }
    }
    bytes
}
/// Three ranks join while a crowd is there; gives what each has to say.
fn joined(place: &Path, crowd: impl FnOnce(SocketAddr) -> Crowd) -> Result<(Vec<JoinReport>, usize, Duration), String> {
    let meeting = JobMeeting::new(place, "local", Duration::from_secs(60))?;
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let task = serde_json::to_string(&JoinTask { ways: JoinWays::Peaceful, who: 0 }).map_err(|e| e.to_string())?;
    let command = |rank| {
        let mut command = Command::new(&own);
        command.args(["distributed", "rank", "join", &task]).arg(place).envs(meeting.variables(rank, RANKS));
        command
    };
    let mut job = RankJob::default();
    job.begin(command(0))?;
    let at = SocketAddr::from(([127, 0, 0, 1], meeting.port));
    let until = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(at).is_err() {
        if Instant::now() > until {
            return Err("rank 0 does not listen".into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    let crowd = crowd(at);
    let begun = Instant::now();
    (1..RANKS).try_for_each(|rank| job.begin(command(rank)))?;
    let ended = job.wait()?;
    let took = begun.elapsed();
    if let Some((rank, end)) = ended.iter().enumerate().find(|(_, end)| end.code != Some(0) || end.stderr.contains("panicked")) {
        return Err(format!("rank {rank} ended with {:?}: {}", end.code, end.stderr.trim()));
    }
    Ok((reports(place, RANKS)?, crowd.len(), took))
}
/// Rank 0's memory in peace and under a crowd.
fn compare(claim: &mut TortureClaim, least: usize, crowd: impl Fn(SocketAddr) -> Crowd) -> Result<(), String> {
    let place = tempfile::tempdir().map_err(|e| e.to_string())?;
    let mut peace = Vec::new();
    for _ in 0..5 {
        peace.push(joined(place.path(), |_| Vec::new())?.0[0].most);
    }
    peace.sort_unstable();
    let (reports, there, took) = joined(place.path(), &crowd)?;
    let more = reports[0].most.saturating_sub(peace[peace.len() / 2]);
    claim.see(serde_json::json!({ "connections": there, "joined_ms": took.as_millis() as u64, "more_kib": more >> 10, "peace_kib": peace.iter().map(|b| b >> 10).collect::<Vec<_>>() }));
    claim.count(if there < least { Err(format!("only {there} connections could be made")) } else { Ok(()) });
    claim.count(if more > MOST { Err(format!("rank 0 needed {} KiB more than in peace", more >> 10)) } else { Ok(()) });
    claim.count(if took > Duration::from_secs(20) { Err(format!("the ranks needed {took:?} to join")) } else { Ok(()) });
    Ok(())
}
/// Connections that say nothing are there before the ranks.
pub fn half_open(many: usize, claim: &mut TortureClaim) -> Result<(), String> {
    raise_descriptors();
    compare(claim, many * 9 / 10, |at| (0..many).filter_map(|k| half_of_something(at, k)).collect())
}
/// Changed frames come in while rank 0 waits.
pub fn noise(many: usize, seed: u64, claim: &mut TortureClaim) -> Result<(), String> {
    raise_descriptors();
    compare(claim, many * 9 / 10, |at| {
        let mut draw = CaseDraw::new(seed);
        let one = |draw: &mut CaseDraw| {
            let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(1)).ok()?;
            (0..1 + draw.below(3)).try_for_each(|_| stream.write_all(&changed_frame(draw))).ok();
            Some(stream)
        };
        (0..many).filter_map(|_| one(&mut draw)).collect()
    })
}
