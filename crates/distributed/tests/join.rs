//! Who may join: right ranks do, whatever else calls; everybody else is refused in words.
//!
//! Ranks are threads here, each with its own sockets, as processes would have them.
#![cfg(unix)]
mod common;
use adamant_distributed::{
    control::RankControl,
    join::{
        frame::{ControlFrame, FRAME_CAP, FrameFault, FrameKind, FrameReader, HANDSHAKE_CAP, HEADER, VERSION},
        handshake::{AnswerStep, CallerStep, HandshakeAnswerer, HandshakeCaller, JoinRefusal, RankClaim},
        token::JoinKey,
    },
};
use adamant_runtime::{
    ErrorKind,
    communicator::{EngineRequest, JoinToken},
};
use common::drawn;
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

/// A job: its token's file, and the socket at which rank 0 listens, as a launcher would give it.
struct Job {
    folder: tempfile::TempDir,
    listener: TcpListener,
    size: usize,
    timeout: Duration,
}
impl Job {
    fn new(size: usize, timeout: f64) -> Job {
        let job =
            Job { folder: tempfile::tempdir().unwrap(), listener: TcpListener::bind("127.0.0.1:0").unwrap(), size, timeout: Duration::from_secs_f64(timeout) };
        job.token("token", 1);
        job
    }
    fn token(&self, name: &str, seed: u64) -> PathBuf {
        let path = self.folder.path().join(name);
        let digits: String = (0..4).map(|k| format!("{:016x}", drawn(seed, k))).collect();
        std::fs::write(&path, digits).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        path
    }
    fn at(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }
    fn request(&self, rank: usize) -> EngineRequest {
        EngineRequest {
            rank,
            size: self.size,
            local: (self.size, rank),
            epoch: 5,
            meeting: Some(("localhost".into(), self.at().port())),
            listener: (rank == 0).then(|| self.listener.as_raw_fd()),
            token: Some(JoinToken::File(self.folder.path().join("token"))),
            bind: None,
            timeout: self.timeout,
        }
    }
}
type Joining = thread::JoinHandle<Result<RankControl, ErrorKind>>;
fn join(request: EngineRequest) -> Joining {
    thread::spawn(move || RankControl::join(&request))
}
/// All ranks came in, and hear each other.
fn is_whole(joining: Vec<Joining>) {
    let controls: Vec<Arc<RankControl>> = joining.into_iter().map(|joining| Arc::new(joining.join().unwrap().unwrap())).collect();
    let threads: Vec<_> = controls
        .iter()
        .cloned()
        .map(|control| thread::spawn(move || (0..3u8).map(|round| control.exchange_small(&[control.rank() as u8, round]).unwrap()).collect::<Vec<_>>()))
        .collect();
    for thread in threads {
        for (round, all) in thread.join().unwrap().into_iter().enumerate() {
            assert_eq!(all, (0..controls.len()).map(|rank| vec![rank as u8, round as u8]).collect::<Vec<_>>());
        }
    }
}
fn failed(joining: Joining, rank: usize, words: &str) {
    match joining.join().unwrap().err() {
        Some(ErrorKind::PeerFailed { rank: of, message }) => assert!(of == rank && message.contains(words), "rank {of}: {message}"),
        other => panic!("{other:?}"),
    }
}
#[test]
fn ranks_that_do_not_find_each_other() {
    for size in [1, 2, 5] {
        let job = Job::new(size, 20.0);
        // The last is there first.
        is_whole((0..size).rev().map(|rank| join(job.request(rank))).collect::<Vec<_>>().into_iter().rev().collect());
    }
    // Rank 0 listens by itself, late.
    let job = Job::new(3, 20.0);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let request = |rank| EngineRequest { listener: None, meeting: Some(("127.0.0.1".into(), free)), ..job.request(rank) };
    let others: Vec<Joining> = vec![join(request(1)), join(request(2))];
    thread::sleep(Duration::from_millis(150));
    is_whole([join(request(0))].into_iter().chain(others).collect());
}
#[test]
fn a_wrong_token_that_comes_in_or_keeps_others_out() {
    let job = Job::new(2, 20.0);
    let other = JoinToken::File(job.token("other", 2));
    let rank_0 = join(job.request(0));
    failed(join(EngineRequest { token: Some(other), ..job.request(1) }), 0, "the token is another one");
    is_whole(vec![rank_0, join(job.request(1))]);
}
#[test]
fn a_token_that_is_missing_open_to_others_or_none_and_is_taken() {
    let job = Job::new(2, 5.0);
    let reason = |token: JoinToken| match RankControl::join(&EngineRequest { token: Some(token), ..job.request(1) }).err() {
        Some(ErrorKind::File { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    assert!(reason(JoinToken::File(job.folder.path().join("nowhere"))).contains("cannot be read"));
    assert!(reason(JoinToken::Descriptor(9999)).contains("cannot be read"));
    for (text, mode, words) in
        [("12ab", 0o600, "64 hexadecimal digits"), (&"g".repeat(64), 0o600, "64 hexadecimal digits"), (&"a".repeat(64), 0o644, "chmod 600")]
    {
        let path = job.folder.path().join("bad");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        let reason = reason(JoinToken::File(path));
        assert!(reason.contains(words), "{reason}");
    }
}
#[test]
fn a_token_behind_a_descriptor_that_is_not_read() {
    let job = Job::new(2, 20.0);
    let file = std::fs::File::open(job.folder.path().join("token")).unwrap();
    let by_descriptor = EngineRequest { token: Some(JoinToken::Descriptor(file.as_raw_fd())), ..job.request(1) };
    is_whole(vec![join(job.request(0)), join(by_descriptor)]);
}
#[test]
fn ranks_started_by_hand_that_need_a_token_or_leave_one() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|f| f.is_dir()).unwrap_or_else(std::env::temp_dir);
    let left = || std::fs::read_dir(&folder).unwrap().flatten().filter(|e| e.file_name().to_string_lossy().ends_with(&format!("{port}.token"))).count();
    let job = Job::new(3, 20.0);
    let request = |rank| EngineRequest { listener: None, token: None, meeting: Some(("127.0.0.1".into(), port)), ..job.request(rank) };
    let others = vec![join(request(1)), join(request(2))];
    thread::sleep(Duration::from_millis(100));
    is_whole([join(request(0))].into_iter().chain(others).collect());
    assert_eq!(left(), 0);
    // Somebody who listens there beyond loopback without a token.
    let bound = EngineRequest { bind: Some("0.0.0.0".into()), ..request(0) };
    assert!(matches!(RankControl::join(&bound), Err(ErrorKind::Argument(why)) if why.contains("token")));
    let everywhere = TcpListener::bind("0.0.0.0:0").unwrap();
    let inherited = EngineRequest { listener: Some(everywhere.as_raw_fd()), ..job.request(0) };
    assert!(matches!(RankControl::join(&inherited), Err(ErrorKind::Argument(why)) if why.contains("beyond loopback")));
}
#[test]
fn an_old_epoch_another_size_or_a_rank_that_is_taken_and_no_reason() {
    let job = Job::new(3, 20.0);
    let rank_0 = join(job.request(0));
    failed(join(EngineRequest { epoch: 4, ..job.request(1) }), 0, "epoch there is 5");
    let rank_1 = join(job.request(1));
    thread::sleep(Duration::from_millis(200));
    failed(join(job.request(1)), 0, "has joined already");
    is_whole(vec![rank_0, rank_1, join(job.request(2))]);
    // Another size is a fault that both are told.
    let rank_0 = join(job.request(0));
    failed(join(EngineRequest { size: 4, local: (4, 1), ..job.request(1) }), 0, "3 ranks are expected");
    assert!(matches!(rank_0.join().unwrap().err(), Some(ErrorKind::Argument(why)) if why.contains("rank 1 counts 4 ranks, this one 3")));
}
#[test]
fn a_rank_that_takes_one_of_an_earlier_start_for_its_own() {
    let (job, old) = (Job::new(2, 20.0), Job::new(2, 20.0));
    drop(old.listener);
    // The earlier rank 0 is still there when the later rank 1 calls.
    let earlier = join(EngineRequest { epoch: 4, timeout: Duration::from_millis(400), ..job.request(0) });
    thread::sleep(Duration::from_millis(50));
    let rank_1 = join(job.request(1));
    let told = earlier.join().unwrap().err();
    assert!(matches!(&told, Some(ErrorKind::PeerLost { rank: 1, why, .. }) if why.contains("epoch")), "{told:?}");
    is_whole(vec![join(job.request(0)), rank_1]);
}
#[test]
fn a_rank_that_does_not_come_and_is_not_named() {
    let job = Job::new(3, 0.6);
    let start = Instant::now();
    let ranks = [join(job.request(0)), join(job.request(2))];
    for rank in ranks {
        let told = rank.join().unwrap().err();
        assert!(matches!(&told, Some(ErrorKind::PeerLost { rank: 1, why, .. }) if why.contains("did not come within 0.6 s")), "{told:?}");
    }
    assert!(start.elapsed() < Duration::from_millis(800));
}

/// Stands between a rank and rank 0, and writes down what the rank says.
fn tapped(job: &Job) -> (u16, Arc<Mutex<Vec<u8>>>) {
    let (tap, said) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::<Mutex<Vec<u8>>>::default());
    let (port, to, kept) = (tap.local_addr().unwrap().port(), job.at(), said.clone());
    thread::spawn(move || {
        let (mut from, _) = tap.accept().unwrap();
        let mut on = TcpStream::connect(to).unwrap();
        let (mut back_from, mut back_to) = (on.try_clone().unwrap(), from.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut back_from, &mut back_to));
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            kept.lock().unwrap().extend_from_slice(&buffer[..n]);
            if on.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        let _ = on.shutdown(Shutdown::Write);
    });
    (port, said)
}
#[test]
fn a_handshake_that_is_said_again_and_comes_in() {
    let job = Job::new(2, 20.0);
    let (port, said) = tapped(&job);
    let rank_1 = EngineRequest { meeting: Some(("127.0.0.1".into(), port)), ..job.request(1) };
    is_whole(vec![join(job.request(0)), join(rank_1)]);
    let said = said.lock().unwrap().clone();
    let rank_0 = join(job.request(0));
    let mut replay = TcpStream::connect(job.at()).unwrap();
    replay.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    replay.write_all(&said).unwrap();
    let mut answer = Vec::new();
    let _ = replay.read_to_end(&mut answer);
    let mut reader = FrameReader::new(FRAME_CAP);
    reader.push(&answer);
    let kinds: Vec<FrameKind> = std::iter::from_fn(|| reader.next_frame().unwrap().map(|frame| frame.kind)).collect();
    assert_eq!(kinds, [FrameKind::Challenge, FrameKind::Refused]);
    is_whole(vec![rank_0, join(job.request(1))]);
}
#[test]
fn another_version_that_is_not_told_so() {
    let job = Job::new(2, 20.0);
    let rank_0 = join(job.request(0));
    let mut stream = TcpStream::connect(job.at()).unwrap();
    let mut bytes = ControlFrame { kind: FrameKind::Hello, epoch: 5, number: 0, body: vec![1, 2, 3] }.encode();
    bytes[4] = 99;
    stream.write_all(&bytes).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let mut reader = FrameReader::new(FRAME_CAP);
    reader.push(&answer);
    let refused = reader.next_frame().unwrap().unwrap();
    assert_eq!((refused.kind, refused.body), (FrameKind::Refused, JoinRefusal::Version(VERSION).encode()));
    is_whole(vec![rank_0, join(job.request(1))]);
    // And the other way: who answers speaks another.
    let strange = Job::new(2, 20.0);
    let rank_1 = join(strange.request(1));
    let (mut stream, _) = strange.listener.accept().unwrap();
    stream.write_all(&bytes).unwrap();
    failed(rank_1, 0, "version 99");
}
#[test]
fn what_is_no_rank_and_answers_in_its_place() {
    let job = Job::new(2, 20.0);
    let rank_1 = join(job.request(1));
    let (mut stream, _) = job.listener.accept().unwrap();
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    failed(rank_1, 0, "is no rank");
    // One that knows how, and not the token.
    let rank_1 = join(job.request(1));
    let (mut stream, _) = job.listener.accept().unwrap();
    let mut answerer = HandshakeAnswerer::new(JoinKey::fresh().unwrap(), RankClaim { rank: 0, size: 2, epoch: 5, process: 0 });
    let mut reader = FrameReader::new(HANDSHAKE_CAP);
    let mut buffer = [0; 2048];
    let hello = loop {
        let n = stream.read(&mut buffer).unwrap();
        reader.push(&buffer[..n]);
        if let Some(frame) = reader.next_frame().unwrap() {
            break frame;
        }
    };
    assert_eq!(answerer.hear(&hello), Err(JoinRefusal::Token));
    let forged = ControlFrame { kind: FrameKind::Challenge, epoch: 5, number: 0, body: vec![0; 32 + 64] };
    stream.write_all(&forged.encode()).unwrap();
    failed(rank_1, 0, "the token is another one");
}
#[test]
fn a_rank_that_died_in_its_handshake_and_is_waited_for() {
    let begins = |job: &Job, process: u32| {
        let key = JoinKey::read(&JoinToken::File(job.folder.path().join("token"))).unwrap();
        let claim = RankClaim { rank: 1, size: 2, epoch: 5, process: process.into() };
        let (_, body) = HandshakeCaller::new(key, claim, 0, "127.0.0.1:1".into()).unwrap();
        let mut stream = TcpStream::connect(job.at()).unwrap();
        stream.write_all(&ControlFrame { kind: FrameKind::Hello, epoch: 5, number: 0, body }.encode()).unwrap();
        // Its answer shows that it was heard.
        stream.read_exact(&mut [0; HEADER]).unwrap();
    };
    let job = Job::new(2, 20.0);
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let (rank_0, start) = (join(job.request(0)), Instant::now());
    begins(&job, ended.id());
    let told = rank_0.join().unwrap().err();
    assert!(matches!(&told, Some(ErrorKind::PeerLost { rank: 1, why, .. }) if why.contains("ended in the handshake")), "{told:?}");
    assert!(start.elapsed() < Duration::from_secs(2));
    // One that lives may only have tried again.
    let rank_0 = join(job.request(0));
    begins(&job, std::process::id());
    is_whole(vec![rank_0, join(job.request(1))]);
}
#[test]
fn connections_that_say_nothing_and_keep_ranks_out() {
    let many: usize = std::env::var("ADAMANT_HALF_OPEN").ok().and_then(|n| n.parse().ok()).unwrap_or(2000);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let job = Job::new(3, 30.0);
    let rank_0 = join(job.request(0));
    let at = job.at();
    let half = move |k: usize| {
        let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(1)).ok()?;
        match k % 3 {
            0 => {}
            1 => stream.write_all(b"adm").ok()?,
            _ => stream.write_all(&ControlFrame { kind: FrameKind::Beat, epoch: 5, number: 0, body: vec![7; 900] }.encode()[..800]).ok()?,
        }
        Some(stream)
    };
    // So many are there before the ranks, and stay; others come all the while.
    let first: Vec<TcpStream> = (0..many).filter_map(half).collect();
    assert!(first.len() > many / 2, "{} connections", first.len());
    let is_over = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let over = is_over.clone();
    let others = thread::spawn(move || {
        let mut later = Vec::new();
        while !over.load(std::sync::atomic::Ordering::SeqCst) && later.len() < 10_000 {
            later.push(half(later.len()));
        }
    });
    let start = Instant::now();
    let controls = vec![rank_0, join(job.request(1)), join(job.request(2))];
    is_whole(controls);
    println!("joined in {:?} among {many}", start.elapsed());
    is_over.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(start.elapsed() < Duration::from_secs(20));
    others.join().unwrap();
}
#[test]
fn what_ranks_tell_each_other_at_the_end() {
    let job = Job::new(3, 20.0);
    let joining: Vec<Joining> = (0..3).map(|rank| join(job.request(rank))).collect();
    let mut controls: Vec<RankControl> = joining.into_iter().map(|joining| joining.join().unwrap().unwrap()).collect();
    let woken = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = woken.clone();
    controls[0].on_change(Box::new(move || count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < usize::MAX));
    assert_eq!(controls[0].verdict(&[1, 2], "waiting", 3), None);
    controls.remove(2);
    let until = Instant::now() + Duration::from_secs(5);
    let mut verdict = None;
    while verdict.is_none() && Instant::now() < until {
        verdict = controls[0].verdict(&[1, 2], "waiting", 3);
    }
    assert!(matches!(&verdict, Some(ErrorKind::PeerLost { rank: 2, why, seq: 3, .. }) if why == "it left"), "{verdict:?}");
    assert_eq!((controls[0].verdict(&[1], "waiting", 3), controls[0].is_lost(2)), (None, None));
    controls[1].say_failed("a full disk");
    let mut failed = None;
    while failed.is_none() && Instant::now() < until {
        failed = controls[0].verdict(&[1], "waiting", 4);
    }
    assert!(matches!(&failed, Some(ErrorKind::PeerFailed { rank: 1, message }) if message == "a full disk"), "{failed:?}");
    assert!(woken.load(std::sync::atomic::Ordering::SeqCst) >= 2);
}

/// Frames and handshakes of which bits changed, bytes are missing or too many: nothing panics, nothing is held beyond the cap, and
/// nothing comes in.
#[test]
fn bytes_that_break_the_reader_of_frames_or_a_handshake() {
    let rounds: u64 = std::env::var("ADAMANT_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let key = JoinKey::fresh().unwrap();
    let claim = |rank| RankClaim { rank, size: 4, epoch: 5, process: 0 };
    let (mut faults, mut whole, mut heard) = (0u64, 0u64, 0u64);
    for round in 0..rounds {
        let d = |k: u64| drawn(round, k);
        let kind = FrameKind::ALL[d(0) as usize % FrameKind::ALL.len()];
        let body = common::drawn_bytes(round, d(1) as usize % 200);
        let (mut caller, hello) = HandshakeCaller::new(key.clone(), claim(1), 0, "127.0.0.1:1".into()).unwrap();
        let frame = if d(2) % 2 == 0 {
            ControlFrame { kind: FrameKind::Hello, epoch: 5, number: 0, body: hello }
        } else {
            ControlFrame { kind, epoch: d(3), number: 0, body }
        };
        let mut bytes = frame.encode();
        let changes = d(4) % 4;
        for k in 0..changes {
            let at = d(10 + k) as usize % bytes.len();
            match d(20 + k) % 4 {
                0 => bytes[at] ^= 1 << (d(30 + k) % 8),
                1 => bytes[at] = d(30 + k) as u8,
                2 => bytes.truncate(at),
                _ => bytes.insert(at, d(30 + k) as u8),
            }
            if bytes.is_empty() {
                bytes.push(d(40) as u8);
            }
        }
        let mut reader = FrameReader::new(HANDSHAKE_CAP);
        let mut at = 0;
        let mut came = Vec::new();
        let fault = loop {
            let n = (1 + d(50 + at as u64) as usize % 300).min(bytes.len() - at);
            reader.push(&bytes[at..at + n]);
            at += n;
            match reader.next_frame() {
                Ok(Some(frame)) => came.push(frame),
                Ok(None) if at == bytes.len() => break None,
                Ok(None) => {}
                Err(fault) => break Some(fault),
            }
            assert!(reader.held() <= HEADER + HANDSHAKE_CAP + 300);
            if at == bytes.len() {
                break None;
            }
        };
        faults += u64::from(fault.is_some());
        whole += came.len() as u64;
        if changes == 0 {
            assert_eq!(came, std::slice::from_ref(&frame));
        }
        for came in came {
            // CRC-32 finds every change of up to three bits; what differs otherwise passes by chance alone.
            let mut answerer = HandshakeAnswerer::new(key.clone(), claim(0));
            match answerer.hear(&came) {
                Ok(AnswerStep::Say(FrameKind::Challenge, _)) => heard += u64::from(came == frame),
                Ok(step) => panic!("round {round}: {step:?}"),
                Err(_) => {}
            }
            assert!(!matches!(caller.hear(&came), Ok(CallerStep::In)), "round {round}");
            // The same under a right check: the handshake itself is what is tried.
            let mut forged = came.clone();
            if let Some(byte) = forged.body.get_mut(d(60) as usize % came.body.len().max(1)) {
                *byte ^= 1 << (d(61) % 8);
                assert!(HandshakeAnswerer::new(key.clone(), claim(0)).hear(&forged).is_err(), "round {round}");
            }
        }
    }
    println!("{rounds} rounds: {faults} faults, {whole} frames, {heard} first proofs");
    assert!(faults > rounds / 5 && whole > rounds / 8 && heard > rounds / 16);
}
#[test]
fn a_frame_that_is_told_wrong() {
    let good = ControlFrame { kind: FrameKind::Small, epoch: 1, number: 0, body: vec![1, 2, 3] }.encode();
    let fault = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        let mut reader = FrameReader::new(HANDSHAKE_CAP);
        reader.push(&bytes);
        reader.next_frame()
    };
    assert!(matches!(fault(&|_| {}), Ok(Some(frame)) if frame.body == [1, 2, 3]));
    assert_eq!(fault(&|b| b[0] ^= 1), Err(FrameFault::Magic));
    assert_eq!(fault(&|b| b.truncate(1)), Ok(None));
    assert_eq!(fault(&|b| b[4] = 9), Err(FrameFault::Version(9)));
    assert_eq!(fault(&|b| b[25] = 0xff), Err(FrameFault::Length(0xff03)));
    assert_eq!(fault(&|b| b[34] ^= 1), Err(FrameFault::Check));
    assert_eq!(fault(&|b| b[16] ^= 1), Err(FrameFault::Check));
    let mut reader = FrameReader::new(HANDSHAKE_CAP);
    [&good[..], &good].iter().for_each(|bytes| reader.push(bytes));
    assert!(matches!(reader.next_frame(), Ok(Some(_))));
    assert_eq!(reader.next_frame(), Err(FrameFault::Number(0)));
}
