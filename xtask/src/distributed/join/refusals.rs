//! Strangers one by one: each is refused by an error of its kind, or in a frame that says why, and is let go of; the ranks join all the same.
use super::{refusal, said_to};
use crate::torture::{CaseDraw, TortureClaim, claim};
use adamant::{
    ErrorKind,
    communicator::{EngineRequest, JoinToken},
};
use adamant_distributed::{
    control::RankControl,
    join::{
        frame::{ControlFrame, FrameKind, VERSION},
        handshake::{HandshakeCaller, JoinRefusal, RankClaim},
        token::JoinKey,
    },
};
use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

/// Ranks that want to join, in threads; and their token.
struct Gathering {
    place: tempfile::TempDir,
    port: u16,
    size: usize,
    epoch: u64,
}
type Joining = thread::JoinHandle<Result<RankControl, ErrorKind>>;
/// A stranger: what it is called, and what it does beside ranks that want to join. It gives an error where it was not refused as it has to be.
type Stranger = (&'static str, fn(&Gathering) -> Result<(), String>);
const STRANGERS: [Stranger; 9] = [
    ("a wrong token", wrong_token),
    ("a token that is not there, no token, or open to others", missing_token),
    ("a frame that says it proves something, by a token of its own", forged_proof),
    ("a handshake that is said again", replayed),
    ("an old epoch", old_epoch),
    ("another version of the protocol", other_version),
    ("what is no frame", no_frame),
    ("a rank that is taken", taken),
    ("another number of ranks", other_size),
];
pub fn claims(times: usize) -> Vec<TortureClaim> {
    let one = |(name, act): &Stranger| {
        claim(&format!("{name}: refused by an error of its kind, let go of, and the ranks join"), |claim| {
            for k in 0..times {
                let seen = Gathering::new(2 + k % 3, k as u64).and_then(|gathering| act(&gathering));
                claim.count(seen);
            }
            Ok(())
        })
    };
    STRANGERS.iter().map(one).collect()
}
impl Gathering {
    fn new(size: usize, seed: u64) -> Result<Gathering, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
        let port = listener.local_addr().map_err(|e| e.to_string())?.port();
        let gathering = Gathering { place: tempfile::tempdir().map_err(|e| e.to_string())?, port, size, epoch: 5 };
        gathering.token("token", seed)?;
        Ok(gathering)
    }
    fn token(&self, name: &str, seed: u64) -> Result<PathBuf, String> {
        let mut draw = CaseDraw::new(seed);
        let text: String = (0..4).map(|_| format!("{:016x}", draw.next())).collect();
        self.file(name, &text, 0o600)
    }
    fn file(&self, name: &str, text: &str, mode: u32) -> Result<PathBuf, String> {
        use std::os::unix::fs::PermissionsExt;
        let path = self.place.path().join(name);
        fs::write(&path, text).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode))).map_err(|e| e.to_string())?;
        Ok(path)
    }
    fn request(&self, rank: usize) -> EngineRequest {
        EngineRequest {
            rank,
            size: self.size,
            local: (self.size, rank),
            epoch: self.epoch,
            meeting: Some(("127.0.0.1".into(), self.port)),
            listener: None,
            token: Some(JoinToken::File(self.place.path().join("token"))),
            bind: None,
            timeout: Duration::from_secs(20),
        }
    }
    fn start(&self, ranks: impl IntoIterator<Item = usize>) -> Vec<Joining> {
        ranks.into_iter().map(|rank| join(self.request(rank))).collect()
    }
    /// The ranks are there, and hear each other.
    fn whole(&self, joining: Vec<Joining>) -> Result<(), String> {
        let mut controls = Vec::new();
        for rank in joining {
            controls.push(rank.join().map_err(|_| "a rank panicked")?.map_err(|e| format!("a rank that is one does not come in: {e}"))?);
        }
        thread::scope(|scope| {
            let heard: Vec<_> = controls.iter().map(|control| scope.spawn(|| control.exchange_small(&[control.rank() as u8]))).collect();
            for heard in heard {
                let all = heard.join().map_err(|_| "a rank panicked")?.map_err(|e| e.to_string())?;
                if all != (0..self.size).map(|rank| vec![rank as u8]).collect::<Vec<_>>() {
                    return Err(format!("ranks hear {all:?}"));
                }
            }
            Ok(())
        })
    }
    /// A stranger that calls rank 0 is told this, once; then all ranks come.
    fn told(&self, stranger: EngineRequest, words: &str) -> Result<(), String> {
        let first = self.start([0]);
        refused(join(stranger), words)?;
        self.whole(first.into_iter().chain(self.start(1..self.size)).collect())
    }
}
fn join(request: EngineRequest) -> Joining {
    thread::spawn(move || RankControl::join(&request))
}
fn refused(joining: Joining, words: &str) -> Result<(), String> {
    match joining.join().map_err(|_| "a stranger's side panicked")?.err() {
        Some(ErrorKind::PeerFailed { message, .. }) if message.contains(words) => Ok(()),
        other => Err(format!("it is told {other:?}, not `{words}`")),
    }
}
fn wrong_token(on: &Gathering) -> Result<(), String> {
    let other = JoinToken::File(on.token("other", 977)?);
    on.told(EngineRequest { token: Some(other), ..on.request(1) }, "the token is another one")
}
fn missing_token(on: &Gathering) -> Result<(), String> {
    let files = [
        (on.place.path().join("nowhere"), "cannot be read"),
        (on.file("short", "12ab", 0o600)?, "64 hexadecimal digits"),
        (on.file("letters", &"g".repeat(64), 0o600)?, "64 hexadecimal digits"),
        (on.file("open", &"a".repeat(64), 0o644)?, "chmod 600"),
    ];
    let first = on.start([0]);
    for (path, words) in files {
        match RankControl::join(&EngineRequest { token: Some(JoinToken::File(path)), ..on.request(1) }).err() {
            Some(ErrorKind::File { reason, .. }) if reason.contains(words) => {}
            other => return Err(format!("it is told {other:?}, not `{words}`")),
        }
    }
    on.whole(first.into_iter().chain(on.start(1..on.size)).collect())
}
/// What rank 0 answers to bytes; it lets go of who said them.
fn answered(on: &Gathering, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
    said_to(("127.0.0.1", on.port), bytes).map(|answer| refusal(&answer))
}
fn expect(on: &Gathering, bytes: &[u8], why: &JoinRefusal) -> Result<(), String> {
    let first = on.start([0]);
    let got = answered(on, bytes)?;
    if got != Some(why.encode()) {
        return Err(format!("it is answered {got:?}, not `{why}`"));
    }
    on.whole(first.into_iter().chain(on.start(1..on.size)).collect())
}
fn frame(on: &Gathering, kind: FrameKind, number: u64, body: Vec<u8>) -> Vec<u8> {
    ControlFrame { kind, epoch: on.epoch, number, body }.encode()
}
fn forged_proof(on: &Gathering) -> Result<(), String> {
    let claim = RankClaim { rank: 1, size: on.size as u64, epoch: on.epoch, process: 0 };
    let key = JoinKey::fresh().map_err(|e| e.to_string())?;
    let (_, hello) = HandshakeCaller::new(key, claim, 0, "127.0.0.1:1".into()).map_err(|e| e.to_string())?;
    let bytes = [frame(on, FrameKind::Hello, 0, hello), frame(on, FrameKind::Proof, 1, vec![7; 32])].concat();
    expect(on, &bytes, &JoinRefusal::Token)
}
/// A rank joins through somebody who writes down what it says, and says it again to the next start.
fn replayed(on: &Gathering) -> Result<(), String> {
    let tap = TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
    let port = tap.local_addr().map_err(|e| e.to_string())?.port();
    let said = Arc::<Mutex<Vec<u8>>>::default();
    let (kept, to) = (said.clone(), on.port);
    thread::spawn(move || -> std::io::Result<()> {
        let (mut from, _) = tap.accept()?;
        let mut forward = connected(to)?;
        let (mut back_from, mut back_to) = (forward.try_clone()?, from.try_clone()?);
        thread::spawn(move || std::io::copy(&mut back_from, &mut back_to));
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..n]);
            if forward.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        forward.shutdown(Shutdown::Write)
    });
    let last = on.size - 1;
    let tapped = EngineRequest { meeting: Some(("127.0.0.1".into(), port)), ..on.request(last) };
    on.whole(on.start(0..last).into_iter().chain([join(tapped)]).collect())?;
    let said = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if said.is_empty() {
        return Err("nothing was written down".into());
    }
    expect(on, &said, &JoinRefusal::Token)
}
fn connected(port: u16) -> std::io::Result<TcpStream> {
    for _ in 0..1000 {
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
            return Ok(stream);
        }
        thread::sleep(Duration::from_millis(2));
    }
    TcpStream::connect(("127.0.0.1", port))
}
fn old_epoch(on: &Gathering) -> Result<(), String> {
    on.told(EngineRequest { epoch: on.epoch - 1, ..on.request(1) }, "epoch there is 5")
}
fn other_version(on: &Gathering) -> Result<(), String> {
    let mut bytes = frame(on, FrameKind::Hello, 0, vec![1, 2, 3]);
    bytes[4] = 99;
    expect(on, &bytes, &JoinRefusal::Version(VERSION))
}
fn no_frame(on: &Gathering) -> Result<(), String> {
    expect(on, b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: somebody\r\n\r\n", &JoinRefusal::Garbled)
}
fn taken(on: &Gathering) -> Result<(), String> {
    if on.size < 3 {
        // The second of two ranks ends the gathering: whoever comes later finds nobody.
        return on.whole(on.start(0..on.size));
    }
    let first = on.start([0, 1]);
    thread::sleep(Duration::from_millis(200));
    refused(join(on.request(1)), "has joined already")?;
    on.whole(first.into_iter().chain(on.start(2..on.size)).collect())
}
/// A fault of the user's, which both sides are told.
fn other_size(on: &Gathering) -> Result<(), String> {
    let first = on.start([0]);
    let wrong = on.size + 1;
    refused(join(EngineRequest { size: wrong, local: (wrong, 1), ..on.request(1) }), &format!("{} ranks are expected", on.size))?;
    for rank in first {
        match rank.join().map_err(|_| "a rank panicked")?.err() {
            Some(ErrorKind::Argument(why)) if why.contains(&format!("counts {wrong} ranks")) => {}
            other => return Err(format!("rank 0 is told {other:?}")),
        }
    }
    Ok(())
}
