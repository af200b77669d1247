//! Frames that were changed, through the reader and both sides of the handshake, on all cores.
use super::crowd::changed_frame;
use crate::torture::{CaseDraw, TortureClaim};
use adamant_distributed::join::{
    frame::{ControlFrame, FrameKind, FrameReader, HANDSHAKE_CAP, HEADER},
    handshake::{AnswerStep, CallerStep, HandshakeAnswerer, HandshakeCaller, RankClaim},
    token::JoinKey,
};
use std::{panic, thread};

/// What is pushed at once, at most.
const PIECE: usize = 300;
#[derive(Default)]
struct FuzzTally {
    faults: u64,
    whole: u64,
    most_held: usize,
}
pub fn frames(n: u64, seed: u64, claim: &mut TortureClaim) -> Result<(), String> {
    let cores = thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = |core: u64| n / cores + u64::from(core < n % cores);
    let tallies: Vec<Result<FuzzTally, String>> = thread::scope(|scope| {
        let run = |core| scope.spawn(move || panic::catch_unwind(|| some(share(core), seed ^ core << 48)).unwrap_or_else(|_| Err("a panic".into())));
        let threads: Vec<_> = (0..cores).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a panic".into()))).collect()
    });
    let mut all = FuzzTally::default();
    for tally in tallies {
        match tally {
            Ok(tally) => {
                all.faults += tally.faults;
                all.whole += tally.whole;
                all.most_held = all.most_held.max(tally.most_held);
                claim.count(Ok(()));
            }
            Err(e) => claim.count(Err(e)),
        }
    }
    claim.see(serde_json::json!({ "frames": n, "faults": all.faults, "read": all.whole, "most_bytes_held": all.most_held }));
    // Noise that is all refused, or all read, tries nothing.
    if all.faults < n / 5 || all.whole < n / 8 {
        claim.count(Err(format!("{} faults and {} frames of {n}: the frames are too much alike", all.faults, all.whole)));
    }
    Ok(())
}
fn some(n: u64, seed: u64) -> Result<FuzzTally, String> {
    let mut tally = FuzzTally::default();
    let mut draw = CaseDraw::new(seed);
    let key = JoinKey::fresh().map_err(|e| e.to_string())?;
    let claim = |rank| RankClaim { rank, size: 4, epoch: 5, process: 0 };
    let (mut caller, mut hello) = (None, Vec::new());
    for round in 0..n {
        // A handshake is begun anew now and then, and heard by all frames until then.
        if round % 64 == 0 {
            let (made, body) = HandshakeCaller::new(key.clone(), claim(1), 0, "127.0.0.1:1".into()).map_err(|e| e.to_string())?;
            (caller, hello) = (Some(made), ControlFrame { kind: FrameKind::Hello, epoch: 5, number: 0, body }.encode());
        }
        let mut bytes = changed_frame(&mut draw);
        let is_hello = draw.below(4) == 0;
        if is_hello {
            bytes.clone_from(&hello);
            for _ in 0..draw.below(3) {
                let at = draw.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << draw.below(8);
            }
        }
        let is_as_sent = is_hello && bytes == hello;
        let mut reader = FrameReader::new(HANDSHAKE_CAP);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at((1 + draw.below(PIECE as u64) as usize).min(rest.len()));
            rest = behind;
            reader.push(piece);
            tally.most_held = tally.most_held.max(reader.held());
            if reader.held() > HEADER + HANDSHAKE_CAP + PIECE {
                return Err(format!("round {round}: {} bytes are held", reader.held()));
            }
            match reader.next_frame() {
                Ok(Some(frame)) => {
                    tally.whole += 1;
                    hear(&frame, is_as_sent, &key, caller.as_mut(), claim(0)).map_err(|e| format!("seed {seed}, round {round}: {e}"))?;
                }
                Ok(None) => {}
                Err(_) => {
                    tally.faults += 1;
                    break;
                }
            }
        }
    }
    Ok(tally)
}
/// Both sides hear it; nobody is let in.
fn hear(frame: &ControlFrame, is_as_sent: bool, key: &JoinKey, caller: Option<&mut HandshakeCaller>, claim: RankClaim) -> Result<(), String> {
    let mut answerer = HandshakeAnswerer::new(key.clone(), claim);
    match answerer.hear(frame) {
        Ok(AnswerStep::Say(FrameKind::Challenge, _)) if is_as_sent => {}
        Ok(AnswerStep::Say(FrameKind::Challenge, _)) => return Err(format!("a changed {:?} is believed", frame.kind)),
        Ok(_) => return Err(format!("a {:?} comes in", frame.kind)),
        Err(_) => {}
    }
    match caller.map(|caller| caller.hear(frame)) {
        Some(Ok(CallerStep::In)) => Err(format!("a {:?} is taken for a welcome", frame.kind)),
        _ => Ok(()),
    }
}
