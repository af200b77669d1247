//! The socket and its thread: takes lines from clients, hands requests in, brings answers back.
//!
//! One thread serves all clients, by `poll`, and waits for none of them: sockets do not block, a line and what waits to be read by a
//! client are bounded, and so are the clients. Who has been silent longest makes place for who comes. After a round in which there
//! was something to do the thread rests: however much clients send, it takes a small part of one core.
use super::{
    ControlDesk, ControlRequest, LONGEST, SOCKET,
    desk::{AskedRequest, DeskNews, OVER, RunPhase, ShownRun},
};
use crate::{Failure, watch::Watch};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, FdFlags, fcntl_setfd, ioctl_fionbio},
    net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, listen, socket},
};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    fs,
    io::{ErrorKind, Read, Write},
    os::{
        fd::OwnedFd,
        unix::{
            fs::{FileTypeExt, MetadataExt, PermissionsExt},
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Clients at once.
const MOST_CLIENTS: usize = 32;
/// Clients that are taken in a round, and that wait meanwhile.
const MOST_NEW: usize = 16;
/// Bytes that may wait for a client to read them.
const MOST_UNREAD: usize = 64 << 10;
/// How long a client may be silent, or leave an answer unread.
const SILENT: Duration = Duration::from_secs(600);
/// How often somebody looks for silent ones.
const LOOK: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };
/// The thread's rest after a round.
const REST: Duration = Duration::from_millis(2);
/// Its stack: it calls nothing deep.
const STACK: usize = 512 << 10;

/// The socket of a run, until it is dropped.
pub(super) struct ControlServer {
    shown: Arc<ShownRun>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
    /// what was made there: nothing else is removed
    number: (u64, u64),
}
/// Why there is no socket.
enum NoSocket {
    /// somebody listens there
    Living,
    Failed(String),
}
impl From<Errno> for NoSocket {
    fn from(e: Errno) -> NoSocket {
        NoSocket::Failed(std::io::Error::from(e).to_string())
    }
}
impl From<std::io::Error> for NoSocket {
    fn from(e: std::io::Error) -> NoSocket {
        NoSocket::Failed(e.to_string())
    }
}
/// Opens the socket of a run of so many steps. Where there can be none, the watcher is told, and the run goes on without.
///
/// # Errors
/// `Usage`: a living run listens there.
pub(super) fn open(folder: &Path, steps: u64, watch: &mut dyn Watch) -> Result<Option<(ControlDesk, ControlServer)>, Failure> {
    let path = folder.join(SOCKET);
    match start(&path, steps) {
        Ok(opened) => Ok(Some(opened)),
        Err(NoSocket::Living) => {
            Err(Failure::Usage(format!("{}: a living run listens there and is left alone; end it, or name another folder", path.display())))
        }
        Err(NoSocket::Failed(why)) => {
            watch.warn(&format!("{}: {why}; the run goes on, and cannot be controlled from outside", path.display()));
            Ok(None)
        }
    }
}
fn start(path: &Path, steps: u64) -> Result<(ControlDesk, ControlServer), NoSocket> {
    let listener = listener(path)?;
    let about = fs::symlink_metadata(path)?;
    let (wake, woken) = UnixStream::pair()?;
    wake.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    let shown = Arc::new(ShownRun::of(steps));
    let ((asks, asked), (answers, answered)) = (channel(), channel());
    let mut served = Served { listener, woken, shown: shown.clone(), asks, answered, clients: Vec::new(), next: 0 };
    let serve = move || served.serve();
    let for_loop = wake.try_clone()?;
    let thread = std::thread::Builder::new().name("control".into()).stack_size(STACK).spawn(serve)?;
    let server = ControlServer { shown: shown.clone(), wake, thread: Some(thread), path: path.to_path_buf(), number: (about.dev(), about.ino()) };
    // A pipe that is full wakes as well.
    let wake = Box::new(move || drop((&for_loop).write(&[0])));
    Ok((ControlDesk { shown, asked, deferred: VecDeque::new(), answers, wake, taken: 0 }, server))
}
/// A socket that nobody listens on yet, and that no other program inherits.
fn unbound() -> Result<OwnedFd, Errno> {
    let fd = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
    ioctl_fionbio(&fd, true)?;
    Ok(fd)
}
fn listener(path: &Path) -> Result<UnixListener, NoSocket> {
    let address = SocketAddrUnix::new(path).map_err(|_| NoSocket::Failed("the path is too long for a socket".into()))?;
    match fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => return Err(NoSocket::Failed("something else stands in the socket's place".into())),
        Ok(_) => match connect(unbound()?, &address) {
            // One that nobody listens on any more: its run is dead.
            Err(Errno::CONNREFUSED) => fs::remove_file(path)?,
            Err(Errno::NOENT) => {}
            Ok(()) | Err(Errno::AGAIN) => return Err(NoSocket::Living),
            Err(e) => return Err(e.into()),
        },
        Err(_) => {}
    }
    let fd = unbound()?;
    // Under another name until it listens, and nobody else can come in: who finds a socket that does not answer takes the run for dead.
    let new = path.with_extension("new");
    if fs::symlink_metadata(&new).is_ok_and(|there| there.file_type().is_socket()) {
        fs::remove_file(&new)?;
    }
    bind(&fd, &SocketAddrUnix::new(&new)?)?;
    let opened = fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).and_then(|()| Ok(listen(&fd, MOST_NEW as i32)?));
    let opened = opened.and_then(|()| fs::hard_link(&new, path));
    let _ = fs::remove_file(&new);
    if let Err(e) = opened {
        return Err(e.into());
    }
    Ok(UnixListener::from(fd))
}
impl Drop for ControlServer {
    fn drop(&mut self) {
        self.shown.closed.store(true, Ordering::Release);
        let _ = (&self.wake).write(&[0]);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if fs::symlink_metadata(&self.path).is_ok_and(|there| (there.dev(), there.ino()) == self.number) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Who is there.
struct AttachedClient {
    id: u64,
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// a request of it was handed in
    waits: bool,
    /// it debugs the run, which has to know when it leaves, and may be silent for as long as it likes
    debugs: bool,
    /// nothing more is read; gone when all is written
    ends: bool,
    heard: Instant,
}
impl AttachedClient {
    fn say(&mut self, answer: &Value) {
        self.output.extend_from_slice(format!("{answer}\n").as_bytes());
        self.write();
    }
    fn refuse(&mut self, why: &str) {
        self.say(&json!({ "ok": false, "error": why }));
    }
    /// Writes what the client takes now.
    fn write(&mut self) {
        if self.output.is_empty() {
            return;
        }
        match self.stream.write(&self.output) {
            Ok(n) => drop(self.output.drain(..n)),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.lose(),
        }
    }
    /// There is nobody any more.
    fn lose(&mut self) {
        (self.ends, self.waits) = (true, false);
        self.input.clear();
        self.output.clear();
    }
    fn is_gone(&self) -> bool {
        self.ends && !self.waits && self.output.is_empty() && self.line_end().is_none()
    }
    fn is_read(&self) -> bool {
        !self.ends && !self.waits && self.output.len() < MOST_UNREAD && self.line_end().is_none()
    }
    /// Is a line there that can be looked at?
    fn is_ready(&self) -> bool {
        !self.waits && self.output.len() < MOST_UNREAD && self.line_end().is_some()
    }
    fn line_end(&self) -> Option<usize> {
        self.input.iter().position(|b| *b == b'\n')
    }
    fn read(&mut self) {
        let mut piece = [0; LONGEST];
        match self.stream.read(&mut piece) {
            // Who has no more to say may still wait for an answer.
            Ok(0) => self.ends = true,
            Ok(n) => self.input.extend_from_slice(piece.get(..n).unwrap_or_default()),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Err(_) => return self.lose(),
        }
        if self.line_end().map_or(self.input.len(), |end| end) > LONGEST {
            self.input.clear();
            self.refuse(&format!("a line has at most {LONGEST} bytes"));
            self.ends = true;
        }
    }
    fn line(&mut self) -> Option<Vec<u8>> {
        let mut line: Vec<u8> = self.input.drain(..=self.line_end()?).collect();
        line.pop();
        self.heard = Instant::now();
        Some(line)
    }
}
/// The thread's state.
struct Served {
    listener: UnixListener,
    woken: UnixStream,
    shown: Arc<ShownRun>,
    asks: Sender<DeskNews>,
    answered: Receiver<(u64, Value)>,
    clients: Vec<AttachedClient>,
    next: u64,
}
impl Served {
    fn serve(&mut self) {
        while !self.shown.closed.load(Ordering::Acquire) {
            if self.wait().is_err() {
                // No memory for the list, or the like: it may be better later.
                std::thread::sleep(Duration::from_millis(100));
            }
            self.bring_answers();
            self.clients.iter_mut().for_each(AttachedClient::write);
            for k in 0..self.clients.len() {
                self.hear(k);
            }
            let stays = |client: &mut AttachedClient| !client.is_gone() && (client.debugs || client.heard.elapsed() < SILENT);
            let left: Vec<AttachedClient> = self.clients.extract_if(.., |client| !stays(client)).collect();
            left.iter().for_each(|client| self.see_off(client));
            self.take_in();
            std::thread::sleep(REST);
        }
        self.bring_answers();
        for client in self.clients.iter_mut().filter(|client| client.waits) {
            client.refuse("the run has ended");
        }
    }
    /// Waits until somebody has something, and reads it.
    fn wait(&mut self) -> Result<(), Errno> {
        let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN), PollFd::new(&self.listener, PollFlags::IN)];
        for client in &self.clients {
            let reads = if client.is_read() { PollFlags::IN } else { PollFlags::empty() };
            let writes = if client.output.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            fds.push(PollFd::new(&client.stream, reads | writes));
        }
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = self.clients.iter().any(AttachedClient::is_ready);
        let most = if ready {
            Some(&at_once)
        } else if self.clients.is_empty() {
            None
        } else {
            Some(&LOOK)
        };
        match poll(&mut fds, most) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
        let seen: Vec<PollFlags> = fds.iter().skip(2).map(PollFd::revents).collect();
        for (client, seen) in self.clients.iter_mut().zip(seen) {
            if seen.contains(PollFlags::IN) && client.is_read() {
                client.read();
            } else if seen.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) && !client.is_ready() {
                client.lose();
            }
        }
        Ok(())
    }
    fn bring_answers(&mut self) {
        let mut bytes = [0; 64];
        while (&self.woken).read(&mut bytes).is_ok_and(|n| n > 0) {}
        while let Ok((id, answer)) = self.answered.try_recv() {
            if let Some(client) = self.clients.iter_mut().find(|client| client.id == id) {
                client.waits = false;
                client.say(&answer);
            }
        }
    }
    /// Looks at a line of a client.
    fn hear(&mut self, k: usize) {
        let Some(client) = self.clients.get_mut(k).filter(|client| client.is_ready()) else { return };
        let Some(line) = client.line() else { return };
        match ControlRequest::parse(&line) {
            Err(failure) => client.refuse(&failure.to_string()),
            Ok(ControlRequest::Status) => {
                let mut answer = json!({ "ok": true });
                if let (Value::Object(into), Ok(Value::Object(status))) = (&mut answer, serde_json::to_value(self.shown.status())) {
                    into.extend(status);
                }
                client.say(&answer);
            }
            Ok(_) if self.shown.phase() == RunPhase::Ending => client.refuse(OVER),
            Ok(request) => {
                client.debugs |= request.debugs();
                client.waits = self.asks.send(DeskNews::Asked(AskedRequest { request, client: client.id })).is_ok();
                self.shown.asked.fetch_add(1, Ordering::Relaxed);
                if !client.waits {
                    client.refuse(OVER);
                }
            }
        }
    }
    /// What a client leaves behind that debugged the run is taken down.
    fn see_off(&self, client: &AttachedClient) {
        if client.debugs && self.asks.send(DeskNews::Left(client.id)).is_ok() {
            self.shown.asked.fetch_add(1, Ordering::Relaxed);
        }
    }
    /// Takes in who has come.
    fn take_in(&mut self) {
        for _ in 0..MOST_NEW {
            let Ok((stream, _)) = self.listener.accept() else { return };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let (input, output, heard) = (Vec::new(), Vec::new(), Instant::now());
            let mut client = AttachedClient { id: self.next, stream, input, output, waits: false, debugs: false, ends: false, heard };
            self.next += 1;
            if self.clients.len() >= MOST_CLIENTS {
                let silent = self.clients.iter().enumerate().filter(|(_, c)| !c.waits).min_by_key(|(_, c)| (c.debugs, c.heard)).map(|(k, _)| k);
                match silent {
                    Some(k) => {
                        let left = self.clients.remove(k);
                        self.see_off(&left);
                    }
                    None => {
                        client.refuse(&format!("{MOST_CLIENTS} others wait for an answer: try again"));
                        continue;
                    }
                }
            }
            self.clients.push(client);
        }
    }
}
