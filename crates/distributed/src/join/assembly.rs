//! How all ranks come to have a connection with all others: one loop over sockets, in which nothing waits for anybody in particular.
//! Must not know what the connections are for.
use super::{
    frame::{ControlFrame, FrameBody, FrameBodyReader, FrameFault, FrameKind},
    handshake::{AnswerStep, CallerStep, HandshakeAnswerer, HandshakeCaller, JoinRefusal, RankClaim},
    link::{ControlLink, LinkEnd},
    meeting,
    token::{HandMadeToken, JoinKey},
};
use crate::{ErrorKind, control::cause::FailureCause};
use adamant_runtime::communicator::EngineRequest;
use mio::{Events, Interest, Poll, Token, net::TcpListener};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    time::{Duration, Instant},
};

/// So many connections may be between being accepted and having proved who they are.
const MOST_PENDING: usize = 128;
/// So long one may take for it.
const HANDSHAKE_TIME: Duration = Duration::from_secs(2);
/// So many are accepted before those that are there are looked after.
const ACCEPTED_AT_ONCE: usize = 256;
/// So long after a rank of this host broke off in its handshake it is looked whether its process has ended, and so often.
const SUSPECTED: Duration = Duration::from_secs(1);
const LOOKED_AFTER: Duration = Duration::from_millis(5);
const LISTENER: Token = Token(usize::MAX - 1);
/// What waiting for the others is called in errors.
const OP: &str = "join";

/// A connection to each other rank; the poll knows each by its rank.
pub(crate) struct Assembled {
    pub(crate) poll: Poll,
    pub(crate) links: Vec<Option<ControlLink>>,
    /// what ranks said that were done before this one
    pub(crate) early: Vec<(usize, ControlFrame)>,
}
/// A rank that is being called.
struct Dial {
    rank: usize,
    at: Vec<SocketAddr>,
    attempts: usize,
    next: Instant,
    /// It was there: if it cannot be reached any more, it is lost.
    was_there: bool,
    /// Somebody listened there.
    was_heard: bool,
    call: Option<(usize, ControlLink, HandshakeCaller)>,
}
/// Somebody who called and has not proved yet who it is.
struct Pending {
    link: ControlLink,
    answerer: HandshakeAnswerer,
    until: Instant,
}
struct Assembly<'r> {
    request: &'r EngineRequest,
    key: Option<JoinKey>,
    hand_made: Option<HandMadeToken>,
    poll: Poll,
    listener: TcpListener,
    has_more: bool,
    links: Vec<Option<ControlLink>>,
    told: Vec<String>,
    dials: Vec<Dial>,
    pending: BTreeMap<usize, Pending>,
    next_token: usize,
    /// who broke off in its handshake, though its first proof held
    suspects: Vec<(RankClaim, Instant)>,
    refusals: Vec<String>,
    has_roster: bool,
    ready: Vec<bool>,
    early: Vec<(usize, ControlFrame)>,
    gone: bool,
    deadline: Instant,
    called_off: Option<CalledOff<'r>>,
}
/// Is nobody to meet any more, because one who was to come is gone? Asked again and again while ranks meet.
pub(crate) type CalledOff<'c> = &'c dyn Fn() -> Option<usize>;
/// It is asked so often.
const CALLED_OFF: Duration = Duration::from_millis(5);
fn broken(e: std::io::Error) -> ErrorKind {
    ErrorKind::Argument(format!("sockets cannot be waited for: {e}"))
}
fn lost(rank: usize, why: impl Into<String>) -> ErrorKind {
    ErrorKind::PeerLost { rank, op: OP.into(), seq: 0, why: why.into() }
}
/// Has a process of this host ended? Where that cannot be seen, it has not.
fn has_ended(process: u64) -> bool {
    if process == 0 || !cfg!(target_os = "linux") {
        return false;
    }
    match std::fs::read_to_string(format!("/proc/{process}/stat")) {
        // Its state follows the name, in which anything may stand.
        Ok(stat) => stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])),
        Err(e) => e.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Meets the other ranks of a request of several, unless somebody calls it off meanwhile.
///
/// # Errors
/// A request that makes no sense; a rank that did not come in time or died; a refusal; it was called off.
pub(crate) fn assemble(request: &EngineRequest, called_off: Option<CalledOff<'_>>) -> Result<Assembled, ErrorKind> {
    let mut assembly = Assembly::new(request)?;
    assembly.called_off = called_off;
    let done = assembly.run();
    if let Err(kind) = &done {
        // Who already has a connection is told why it closes.
        let body = FailureCause::of(kind).encode(0);
        for link in assembly.links.iter_mut().flatten() {
            link.say(FrameKind::Failed, body.clone());
            link.say(FrameKind::Goodbye, Vec::new());
            link.flush();
            link.close_own_side();
        }
    }
    done?;
    let Assembly { poll, links, early, .. } = assembly;
    Ok(Assembled { poll, links, early })
}
impl<'r> Assembly<'r> {
    fn new(request: &'r EngineRequest) -> Result<Assembly<'r>, ErrorKind> {
        let (rank, size) = (request.rank, request.size);
        if rank >= size {
            return Err(ErrorKind::Argument(format!("there is no rank {rank} among {size}")));
        }
        let at = meeting::addresses(request)?;
        let listener = meeting::listen(request)?;
        let told = meeting::told(&listener);
        let mut key = request.token.as_ref().map(JoinKey::read).transpose()?;
        let mut hand_made = None;
        if rank == 0 && key.is_none() {
            let port = listener.local_addr().map_err(broken)?.port();
            let (file, made) = HandMadeToken::make(port)?;
            (hand_made, key) = (Some(file), Some(made));
        }
        let poll = Poll::new().map_err(broken)?;
        let mut listener = TcpListener::from_std(listener);
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE).map_err(broken)?;
        let now = Instant::now();
        let mut assembly = Assembly {
            request,
            key,
            hand_made,
            poll,
            listener,
            has_more: false,
            links: (0..size).map(|_| None).collect(),
            told: vec![String::new(); size],
            dials: Vec::new(),
            pending: BTreeMap::new(),
            next_token: size,
            suspects: Vec::new(),
            refusals: Vec::new(),
            has_roster: rank == 0,
            ready: vec![false; size],
            early: Vec::new(),
            gone: false,
            deadline: now + request.timeout,
            called_off: None,
        };
        assembly.told[rank] = told;
        if rank != 0 {
            assembly.dial(0, at, false);
        }
        Ok(assembly)
    }
    fn claim(&self) -> RankClaim {
        RankClaim { rank: self.request.rank as u64, size: self.request.size as u64, epoch: self.request.epoch, process: u64::from(std::process::id()) }
    }
    fn dial(&mut self, rank: usize, at: Vec<SocketAddr>, was_there: bool) {
        self.dials.push(Dial { rank, at, attempts: 0, next: Instant::now(), was_there, was_heard: was_there, call: None });
    }
    fn run(&mut self) -> Result<(), ErrorKind> {
        let mut events = Events::with_capacity(256);
        while !self.gone {
            self.dial_those_due()?;
            let now = Instant::now();
            if now >= self.deadline() {
                return Err(self.too_late());
            }
            if let Some(rank) = self.called_off.and_then(|called_off| called_off()) {
                return Err(lost(rank, "its process ended while the ranks met"));
            }
            let wait = if self.has_more { Duration::ZERO } else { self.next_due().saturating_duration_since(now) };
            match self.poll.poll(&mut events, Some(wait)) {
                Err(e) if e.kind() != std::io::ErrorKind::Interrupted => return Err(broken(e)),
                _ => {}
            }
            // Those who are known first: what they say does not wait behind strangers.
            let (mut known, mut others): (Vec<usize>, Vec<usize>) =
                events.iter().map(|event| event.token().0).filter(|token| *token != LISTENER.0).partition(|token| *token < self.links.len());
            self.has_more |= events.iter().any(|event| event.token() == LISTENER);
            for rank in known.drain(..) {
                self.hear_rank(rank)?;
            }
            for token in others.drain(..) {
                match self.dials.iter().position(|dial| dial.call.as_ref().is_some_and(|call| call.0 == token)) {
                    Some(dial) => self.hear_called(dial)?,
                    None => self.hear_pending(token)?,
                }
            }
            if self.has_more {
                self.accept()?;
            }
            self.pending.retain(|_, pending| pending.until > Instant::now());
            self.look_after_suspects()?;
            self.step()?;
        }
        Ok(())
    }
    fn deadline(&self) -> Instant {
        // Rank 0 knows best who is missing: who has reached it gives it the time to say so.
        let has_rank_0 = self.request.rank != 0 && self.links[0].is_some();
        self.deadline + if has_rank_0 { (self.request.timeout / 4).min(Duration::from_secs(1)) } else { Duration::ZERO }
    }
    fn next_due(&self) -> Instant {
        let dials = self.dials.iter().filter(|dial| dial.call.is_none()).map(|dial| dial.next);
        let pending = self.pending.values().map(|pending| pending.until);
        let suspects = self.suspects.iter().map(|_| Instant::now() + LOOKED_AFTER);
        let called_off = self.called_off.iter().map(|_| Instant::now() + CALLED_OFF);
        dials.chain(pending).chain(suspects).chain(called_off).fold(self.deadline(), Instant::min)
    }
    /// A process that broke off in its handshake and has ended was a rank of this start: nobody else could say so, at any time.
    fn look_after_suspects(&mut self) -> Result<(), ErrorKind> {
        let (now, own) = (Instant::now(), self.claim());
        let links = &self.links;
        let may_come = |claim: &RankClaim| links.get(claim.rank as usize).is_some_and(Option::is_none) && claim.epoch == own.epoch && claim.size == own.size;
        self.suspects.retain(|(claim, until)| *until > now && may_come(claim));
        match self.suspects.iter().find(|(claim, _)| has_ended(claim.process)) {
            Some((claim, _)) => Err(lost(claim.rank as usize, "its process ended in the handshake")),
            None => Ok(()),
        }
    }
    fn missing(&self) -> Vec<usize> {
        (0..self.links.len()).filter(|rank| *rank != self.request.rank && self.links[*rank].is_none()).collect()
    }
    fn too_late(&self) -> ErrorKind {
        let missing = self.missing();
        let timeout = self.request.timeout.as_secs_f64();
        let mut why = match (&missing[..], self.request.rank) {
            ([], 0) => {
                let late = (1..self.ready.len()).find(|rank| !self.ready[*rank]).unwrap_or(0);
                return lost(late, format!("it had not reached all others within {timeout} s"));
            }
            ([], _) => return lost(0, format!("it did not say within {timeout} s that all are there")),
            (missing, 0) if missing.len() > 1 => {
                let missing: Vec<String> = missing.iter().map(usize::to_string).collect();
                format!("ranks {} did not come within {timeout} s", missing.join(", "))
            }
            ([0, ..], _) => format!("it was not reached within {timeout} s"),
            _ => format!("it did not come within {timeout} s"),
        };
        if !self.refusals.is_empty() {
            why.push_str(&format!("; meanwhile: {}", self.refusals.join("; ")));
        }
        lost(missing[0], why)
    }
    fn note(&mut self, what: String) {
        const MOST_NOTES: usize = 4;
        tracing::warn!(target: "adamant::ranks", rank = self.request.rank, "{what}");
        if self.refusals.len() < MOST_NOTES && !self.refusals.contains(&what) {
            self.refusals.push(what);
        }
    }

    /// Rank 0 tells everybody where everybody is; who has all connections says so; when all have, it is over.
    fn step(&mut self) -> Result<(), ErrorKind> {
        let (rank, size) = (self.request.rank, self.request.size);
        if !self.missing().is_empty() || self.ready[rank] && rank != 0 {
            return Ok(());
        }
        if rank != 0 {
            if self.has_roster {
                self.ready[rank] = true;
                self.tell(0, FrameKind::Ready, Vec::new())?;
            }
        } else if !self.ready[0] {
            self.ready[0] = true;
            // Nobody comes in any more.
            self.hand_made = None;
            let roster = self.told.iter().fold(FrameBody::default(), |body, told| body.text(told)).0;
            for rank in 1..size {
                self.tell(rank, FrameKind::Roster, roster.clone())?;
            }
        } else if self.ready.iter().all(|ready| *ready) {
            for rank in 1..size {
                self.tell(rank, FrameKind::Go, Vec::new())?;
            }
            self.gone = true;
        }
        Ok(())
    }
    fn tell(&mut self, rank: usize, kind: FrameKind, body: Vec<u8>) -> Result<(), ErrorKind> {
        let Some(link) = &mut self.links[rank] else { return Ok(()) };
        link.say(kind, body);
        if link.flush() {
            return Ok(());
        }
        // What it said before is not lost with the connection, and may be why.
        self.hear_rank(rank)?;
        Err(lost(rank, "its connection closed"))
    }
    /// A connection becomes that of a rank.
    fn settle(&mut self, rank: usize, mut link: ControlLink) -> Result<(), ErrorKind> {
        link.trust();
        link.deregister(self.poll.registry());
        link.register(self.poll.registry(), Token(rank)).map_err(broken)?;
        self.links[rank] = Some(link);
        self.hear_rank(rank)
    }
    fn hear_rank(&mut self, rank: usize) -> Result<(), ErrorKind> {
        let Some(link) = &mut self.links[rank] else { return Ok(()) };
        let mut frames = Vec::new();
        let is_open = link.flush();
        let end = link.read(&mut frames);
        for frame in frames {
            self.hear_frame(rank, frame)?;
        }
        let has_left = self.early.iter().any(|(from, frame)| *from == rank && frame.kind == FrameKind::Goodbye);
        match end {
            _ if has_left => Ok(()),
            Ok(()) if is_open => Ok(()),
            Ok(()) | Err(LinkEnd::Closed) => Err(lost(rank, "its connection closed")),
            Err(LinkEnd::Fault(fault)) => Err(lost(rank, fault.to_string())),
        }
    }
    fn hear_frame(&mut self, rank: usize, frame: ControlFrame) -> Result<(), ErrorKind> {
        match frame.kind {
            FrameKind::Roster if rank == 0 && !self.has_roster => self.read_roster(&frame.body)?,
            FrameKind::Ready if self.request.rank == 0 => self.ready[rank] = true,
            FrameKind::Go if rank == 0 => self.gone = true,
            FrameKind::Failed => {
                let cause = FailureCause::decode(&frame.body).map_or_else(|| FailureCause::Said("no reason".into()), |(_, cause)| cause);
                return Err(cause.error(self.request.rank, rank, OP, 0));
            }
            // Others may be done before this rank, and even have left.
            _ => self.early.push((rank, frame)),
        }
        Ok(())
    }
    fn read_roster(&mut self, body: &[u8]) -> Result<(), ErrorKind> {
        let mut body = FrameBodyReader(body);
        for rank in 0..self.request.size {
            let at = body.text().and_then(|told| told.parse().ok());
            let at: SocketAddr = at.ok_or_else(|| lost(0, format!("it did not say where rank {rank} is")))?;
            if rank != 0 && rank < self.request.rank {
                self.dial(rank, vec![at], true);
            }
        }
        self.has_roster = true;
        Ok(())
    }

    fn dial_those_due(&mut self) -> Result<(), ErrorKind> {
        let now = Instant::now();
        for k in 0..self.dials.len() {
            if self.dials[k].call.is_some() || self.dials[k].next > now {
                continue;
            }
            let (token, claim, own) = (self.next_token, self.claim(), self.told[self.request.rank].clone());
            let dial = &mut self.dials[k];
            let at = dial.at[dial.attempts % dial.at.len().max(1)];
            let known = if self.request.token.is_none() && dial.rank == 0 { HandMadeToken::find(at.port()) } else { self.key.clone() };
            let (Some(key), Ok(stream)) = (known, mio::net::TcpStream::connect(at)) else {
                dial.again();
                continue;
            };
            self.key = Some(key.clone());
            let (caller, hello) = HandshakeCaller::new(key, claim, dial.rank, own)?;
            let mut link = ControlLink::new(stream, self.request.epoch);
            link.say(FrameKind::Hello, hello);
            link.register(self.poll.registry(), Token(token)).map_err(broken)?;
            dial.call = Some((token, link, caller));
            self.next_token += 1;
        }
        Ok(())
    }
    /// Something happened on a connection that this rank opened.
    fn hear_called(&mut self, k: usize) -> Result<(), ErrorKind> {
        let dial = &mut self.dials[k];
        let rank = dial.rank;
        let Some((_, link, caller)) = &mut dial.call else { return Ok(()) };
        match link.is_connected() {
            None => return Ok(()),
            Some(false) if dial.was_heard => return Err(lost(rank, "nobody listens in its place any more")),
            Some(false) => {
                dial.again();
                return Ok(());
            }
            Some(true) => dial.was_heard = true,
        }
        let mut frames = Vec::new();
        let is_open = link.flush();
        let end = link.read(&mut frames);
        let mut refusal = None;
        let mut frames = frames.into_iter();
        for frame in frames.by_ref() {
            match caller.hear(&frame) {
                Ok(CallerStep::Say(kind, body)) => {
                    link.trust();
                    link.say(kind, body);
                    link.flush();
                }
                Ok(CallerStep::In) => {
                    let dial = self.dials.swap_remove(k);
                    let Some((_, link, _)) = dial.call else { return Ok(()) };
                    // What was said right after the Welcome comes before what is read now.
                    for frame in frames {
                        self.hear_frame(rank, frame)?;
                    }
                    return self.settle(rank, link);
                }
                Err(why) => {
                    refusal = Some(why);
                    break;
                }
            }
        }
        if let Some(refusal) = refusal {
            return self.refused(k, &refusal);
        }
        match end {
            Ok(()) if is_open => Ok(()),
            Ok(()) | Err(LinkEnd::Closed) if caller.has_met() || dial.was_there => Err(lost(rank, "its connection closed in the handshake")),
            Ok(()) | Err(LinkEnd::Closed) => {
                dial.again();
                Ok(())
            }
            Err(LinkEnd::Fault(FrameFault::Version(version))) => self.refused(k, &JoinRefusal::Version(version)),
            Err(LinkEnd::Fault(fault)) => Err(ErrorKind::PeerFailed { rank, message: format!("what answers in its place is no rank: {fault}") }),
        }
    }
    fn refused(&mut self, k: usize, refusal: &JoinRefusal) -> Result<(), ErrorKind> {
        let (rank, by_hand) = (self.dials[k].rank, self.request.token.is_none());
        let passes = match refusal {
            // Left over from an earlier start: the one that this rank belongs to will come.
            JoinRefusal::Epoch(theirs) => *theirs < self.request.epoch,
            JoinRefusal::Token => by_hand,
            _ => false,
        };
        if !passes {
            return Err(ErrorKind::PeerFailed { rank, message: refusal.to_string() });
        }
        self.dials[k].was_heard = false;
        self.dials[k].again();
        self.note(format!("rank {rank} {refusal}"));
        Ok(())
    }

    fn accept(&mut self) -> Result<(), ErrorKind> {
        for _ in 0..ACCEPTED_AT_ONCE {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    self.has_more = false;
                    return Ok(());
                }
                // No descriptor is free: somebody must go.
                Err(_) if !self.pending.is_empty() => {
                    self.make_space();
                    continue;
                }
                Err(_) => return Ok(()),
            };
            let Some(key) = self.key.clone() else { continue };
            if self.pending.len() >= MOST_PENDING {
                self.make_space();
            }
            let token = self.next_token;
            self.next_token += 1;
            let mut link = ControlLink::new(stream, self.request.epoch);
            if link.register(self.poll.registry(), Token(token)).is_ok() {
                let pending = Pending { link, answerer: HandshakeAnswerer::new(key, self.claim()), until: Instant::now() + HANDSHAKE_TIME };
                self.pending.insert(token, pending);
                // What a rank says first is mostly there, and lets it stay when others must go.
                self.hear_pending(token)?;
            }
        }
        Ok(())
    }
    /// The oldest of those who have proved nothing goes, or the oldest.
    fn make_space(&mut self) {
        let silent = self.pending.iter().find(|(_, pending)| pending.answerer.heard().is_none()).map(|(token, _)| *token);
        if let Some(token) = silent.or_else(|| self.pending.keys().next().copied()) {
            self.pending.remove(&token);
        }
    }
    /// Something happened on a connection that was accepted.
    fn hear_pending(&mut self, token: usize) -> Result<(), ErrorKind> {
        let Some(pending) = self.pending.get_mut(&token) else { return Ok(()) };
        let mut frames = Vec::new();
        let is_open = pending.link.flush();
        let end = pending.link.read(&mut frames);
        for frame in frames {
            match pending.answerer.hear(&frame) {
                Ok(AnswerStep::Say(kind, body)) => {
                    pending.link.say(kind, body);
                    pending.link.flush();
                }
                Ok(AnswerStep::Known(claim, told)) => return self.admit(token, &claim, &told),
                Err(refusal) => {
                    self.refuse(token, &refusal);
                    return Ok(());
                }
            }
        }
        match end {
            Ok(()) if is_open => {}
            Err(LinkEnd::Fault(fault)) => self.refuse(token, &fault.into()),
            Ok(()) | Err(LinkEnd::Closed) => {
                let gone = self.pending.remove(&token);
                let of_host = gone.filter(|gone| gone.link.peer().is_none_or(|at| at.ip().is_loopback()));
                self.suspects.extend(of_host.and_then(|gone| gone.answerer.heard().cloned()).map(|claim| (claim, Instant::now() + SUSPECTED)));
            }
        }
        Ok(())
    }
    fn refuse(&mut self, token: usize, refusal: &JoinRefusal) {
        if let Some(mut pending) = self.pending.remove(&token) {
            pending.link.say(FrameKind::Refused, refusal.encode());
            pending.link.flush();
            pending.link.close_own_side();
            let from = pending.link.peer().map_or_else(|| "somebody".into(), |at| at.to_string());
            self.note(format!("a connection from {from} was {refusal}"));
        }
    }
    /// Somebody has proved that it knows the token: is it a rank that is to come here?
    fn admit(&mut self, token: usize, claim: &RankClaim, told: &str) -> Result<(), ErrorKind> {
        let own = self.claim();
        let rank = usize::try_from(claim.rank).unwrap_or(usize::MAX);
        let is_expected = claim.rank > own.rank && claim.rank < own.size && claim.size == own.size;
        let refusal = match () {
            () if claim.epoch != own.epoch => Some(JoinRefusal::Epoch(own.epoch)),
            () if !is_expected => Some(JoinRefusal::Size(own.size)),
            () if self.links[rank].is_some() => Some(JoinRefusal::Taken),
            () => None,
        };
        if let Some(refusal) = refusal {
            self.refuse(token, &refusal);
            let of_this_start = claim.epoch == own.epoch && claim.size != own.size;
            let differ = format!("rank {} counts {} ranks, this one {}", claim.rank, claim.size, own.size);
            return if of_this_start { Err(ErrorKind::Argument(differ)) } else { Ok(()) };
        }
        let Some(mut pending) = self.pending.remove(&token) else { return Ok(()) };
        let Some(at) = meeting::reached(told, pending.link.peer()) else {
            pending.link.say(FrameKind::Refused, JoinRefusal::Garbled.encode());
            pending.link.flush();
            return Ok(());
        };
        self.told[rank] = at.to_string();
        pending.link.say(FrameKind::Welcome, Vec::new());
        if !pending.link.flush() {
            return Err(lost(rank, "its connection closed in the handshake"));
        }
        self.settle(rank, pending.link)
    }
}
impl Dial {
    /// Tries again, after a while that grows.
    fn again(&mut self) {
        self.call = None;
        self.attempts += 1;
        self.next = Instant::now() + Duration::from_millis((2u64 << self.attempts.min(6)).min(100));
    }
}
