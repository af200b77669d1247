//! A rank's seat in a job whose ranks come and go: its word with the launcher, and the group of each epoch.
use super::{
    ElasticRank, SEAT_FD,
    words::{LauncherSays, SeatLines, SeatSays},
};
use crate::{ErrorKind, join::inherited, local, place::RankPlace};
use adamant_runtime::communicator::{Communicator, EngineRequest};
use parking_lot::{Condvar, Mutex};
use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::Arc,
    time::{Duration, Instant},
};

/// Who waits for the launcher looks so often whether it is to give up.
const LOOK: Duration = Duration::from_millis(20);
/// A meeting takes no longer; who is to end waits for it, so that all end behind one step.
const MEETING: Duration = Duration::from_secs(1);
const OP: &str = "meeting again";

/// Where a rank is to meet the others.
#[derive(Clone, Debug)]
struct MeetingCall {
    epoch: u64,
    rank: usize,
    size: usize,
    word: Option<Vec<u8>>,
}
#[derive(Default)]
struct SeatHeard {
    /// what the launcher said at the start
    hello: Option<Option<Vec<u8>>>,
    meet: Option<MeetingCall>,
    stale: Option<(u64, usize)>,
    called: bool,
    ended: Option<i32>,
    none: Option<String>,
    closed: bool,
}
#[derive(Default)]
struct SeatHearing {
    heard: Mutex<SeatHeard>,
    changed: Condvar,
}
impl SeatHearing {
    fn hear(&self, said: LauncherSays) {
        let mut heard = self.heard.lock();
        match said {
            LauncherSays::Hello { word } => heard.hello = Some(word),
            LauncherSays::Call => heard.called = true,
            LauncherSays::Meet { epoch, rank, size, word } => {
                // What called before meets now; a call behind this one is of somebody else.
                heard.called = false;
                heard.meet = Some(MeetingCall { epoch, rank, size, word });
            }
            LauncherSays::Stale { epoch, rank } => heard.stale = Some((epoch, rank)),
            LauncherSays::End { signal } => heard.ended = Some(signal),
            LauncherSays::None { why } => heard.none = Some(why),
        }
        drop(heard);
        self.changed.notify_all();
    }
    fn listen(&self, mut stream: UnixStream) {
        let (mut lines, mut buffer) = (SeatLines::default(), [0; 4096]);
        loop {
            let read = match stream.read(&mut buffer) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Ok(n) if n > 0 => lines.push(&buffer[..n]),
                _ => None,
            };
            let Some(all) = read else { break };
            // A word of a later launcher is not for this rank.
            all.iter().filter_map(|line| LauncherSays::read(line)).for_each(|said| self.hear(said));
        }
        self.heard.lock().closed = true;
        self.changed.notify_all();
    }
}

/// How a rank's meeting came out.
pub enum SeatMet {
    /// a new group, and what its leader wants newcomers to know, where an earlier leader has said it
    Group(Arc<ElasticRank>, Option<Vec<u8>>),
    /// there is none: this signal ended another rank
    Ended(i32),
    /// there is none: this rank gave up
    GaveUp,
}
/// See the module's documentation.
pub struct ElasticSeat {
    stream: Mutex<UnixStream>,
    hearing: Arc<SeatHearing>,
    request: EngineRequest,
    /// the group of the last epoch
    group: Mutex<Option<(u64, Arc<ElasticRank>)>>,
    word: Option<Vec<u8>>,
}
impl ElasticSeat {
    /// That of this process, where its launcher has given it one.
    ///
    /// # Errors
    /// A descriptor that is no socket; an engine whose groups end for good when a rank is lost.
    pub fn from_environment(place: &RankPlace) -> Result<Option<ElasticSeat>, ErrorKind> {
        let Some(value) = std::env::var_os(SEAT_FD).filter(|value| !value.is_empty()) else { return Ok(None) };
        let value = value.to_string_lossy();
        let wrong = |why: String| ErrorKind::Argument(format!("{SEAT_FD} is `{value}`: {why}"));
        let engine = place.engine_name();
        if engine != "local" {
            return Err(ErrorKind::Argument(format!(
                "engine `{engine}` is not elastic: its groups end with the first rank that is lost; use `local`, or leave `--elastic` out"
            )));
        }
        let number: i32 = value.parse().map_err(|_| wrong("not the number of a descriptor".into()))?;
        ElasticSeat::new(inherited::stream(number).map_err(|e| wrong(e.to_string()))?, place.to_request()).map(Some)
    }
    /// On a socket to the launcher; of the request it takes where ranks meet, the token, and how long they wait. Waits for the launcher's
    /// first word.
    ///
    /// # Errors
    /// No thread; a launcher that says nothing.
    pub fn new(stream: UnixStream, request: EngineRequest) -> Result<ElasticSeat, ErrorKind> {
        let broken = |e: std::io::Error| ErrorKind::Argument(format!("the launcher cannot be heard: {e}"));
        let hearing = Arc::new(SeatHearing::default());
        let (listens, from) = (hearing.clone(), stream.try_clone().map_err(broken)?);
        std::thread::Builder::new().name("adamant-seat".into()).spawn(move || listens.listen(from)).map_err(broken)?;
        let until = Instant::now() + request.timeout;
        let mut heard = hearing.heard.lock();
        while heard.hello.is_none() && !heard.closed && !hearing.changed.wait_until(&mut heard, until).timed_out() {}
        let Some(word) = heard.hello.take() else { return Err(ErrorKind::Argument("the launcher says nothing".into())) };
        drop(heard);
        Ok(ElasticSeat { stream: Mutex::new(stream), hearing, request, group: Mutex::default(), word })
    }
    /// What the leader wants newcomers to know, if it had said it when this rank was started. Such a rank is a newcomer: it makes itself
    /// ready before it meets the others, who do not wait for it.
    pub fn word(&self) -> Option<&[u8]> {
        self.word.as_deref()
    }
    /// The leader says what newcomers are to know, before it tells any other rank.
    ///
    /// # Errors
    /// The launcher is gone; more than a line takes.
    pub fn tell(&self, word: &[u8]) -> Result<(), ErrorKind> {
        if 2 * word.len() + 64 > super::words::LONGEST {
            return Err(ErrorKind::Argument(format!("{} bytes are too many for newcomers", word.len())));
        }
        self.say(&SeatSays::Word(word.to_vec()))
    }
    fn say(&self, says: &SeatSays) -> Result<(), ErrorKind> {
        let said = self.stream.lock().write_all(says.to_line().as_bytes());
        said.map_err(|e| ErrorKind::Argument(format!("the launcher is gone: {e}")))
    }
    /// Does a newcomer wait? Then all ranks are to meet, between two steps.
    pub fn is_called(&self) -> bool {
        self.hearing.heard.lock().called
    }
    /// Meets those who are left and those who come. `lost` is what ended the last group, if something did; `gives_up` is asked while
    /// others are waited for.
    ///
    /// # Errors
    /// `PeerLost`: too few came in time; the launcher said that nobody comes any more, or is gone. What else keeps ranks from meeting.
    pub fn meet(&self, lost: Option<&ErrorKind>, gives_up: &dyn Fn() -> bool) -> Result<SeatMet, ErrorKind> {
        let (begun, mut lost) = (Instant::now(), lost.cloned());
        loop {
            let before = self.group.lock().take();
            let epoch = before.as_ref().map(|(epoch, _)| *epoch);
            let rank = if let Some(ErrorKind::PeerLost { rank, .. }) = &lost { Some(*rank) } else { None };
            let told = epoch.or_else(|| self.hearing.heard.lock().meet.as_ref().map(|call| call.epoch));
            // The launcher first: farewells take a moment.
            self.say(&SeatSays::Want { epoch: told, lost: rank })?;
            if let Some((_, group)) = before {
                group.retire();
            }
            let call = match self.wait(told, (begun, lost.as_ref()), gives_up)? {
                Ok(call) => call,
                Err(over) => return Ok(over),
            };
            tracing::info!(target: "adamant::ranks", epoch = call.epoch, rank = call.rank, size = call.size, "meets");
            match self.join(&call) {
                Ok(group) => {
                    let group = ElasticRank::new(call.epoch, group);
                    *self.group.lock() = Some((call.epoch, group.clone()));
                    return Ok(SeatMet::Group(group, call.word));
                }
                Err(kind @ (ErrorKind::PeerLost { .. } | ErrorKind::PeerFailed { .. })) if begun.elapsed() < self.request.timeout => lost = Some(kind),
                Err(kind) => return Err(kind),
            }
        }
    }
    fn join(&self, call: &MeetingCall) -> Result<Arc<dyn Communicator>, ErrorKind> {
        let request = EngineRequest { rank: call.rank, size: call.size, local: (call.size, call.rank), epoch: call.epoch, ..self.request.clone() };
        let called_off = || self.hearing.heard.lock().stale.filter(|(epoch, _)| *epoch >= call.epoch).map(|(_, rank)| rank);
        local::open_unless(&request, Some(&called_off))
    }
    /// Waits for a meeting of a later epoch.
    fn wait(
        &self,
        after: Option<u64>,
        (begun, lost): (Instant, Option<&ErrorKind>),
        gives_up: &dyn Fn() -> bool,
    ) -> Result<Result<MeetingCall, SeatMet>, ErrorKind> {
        let missing = |why: String| match lost {
            Some(ErrorKind::PeerLost { rank, op, seq, why: first }) => {
                ErrorKind::PeerLost { rank: *rank, op: op.clone(), seq: *seq, why: format!("{first}; {why}") }
            }
            _ => ErrorKind::PeerLost { rank: 0, op: OP.into(), seq: 0, why },
        };
        let mut heard = self.hearing.heard.lock();
        loop {
            let call = heard.meet.clone().filter(|call| after.is_none_or(|after| call.epoch > after));
            match (call, heard.ended, &heard.none) {
                (Some(call), ..) => return Ok(Ok(call)),
                (None, Some(signal), _) => return Ok(Err(SeatMet::Ended(signal))),
                (None, None, Some(why)) => return Err(missing(why.clone())),
                (None, None, None) if heard.closed => return Err(missing("the launcher is gone".into())),
                _ => {}
            }
            if begun.elapsed() >= self.request.timeout {
                return Err(missing(format!("too few others came within {} s", self.request.timeout.as_secs_f64())));
            }
            if begun.elapsed() >= MEETING && gives_up() {
                return Ok(Err(SeatMet::GaveUp));
            }
            self.hearing.changed.wait_for(&mut heard, LOOK);
        }
    }
}
impl Drop for ElasticSeat {
    fn drop(&mut self) {
        if let Some((_, group)) = self.group.lock().take() {
            group.retire();
        }
        // The thread that listens ends.
        let _ = self.stream.lock().shutdown(std::net::Shutdown::Read);
    }
}
