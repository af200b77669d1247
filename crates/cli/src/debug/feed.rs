//! Follows a run and tells every open page: two threads, one that reads the folder's files and one that asks the run where it is.
//!
//! A page that is opened is told all that is known under the same lock under which lines are taken, so that none is missed or told twice. A
//! page that does not keep up is dropped: it comes back by itself, and begins anew. A run that writes more lines than are told one by one
//! drops nobody: its pages are told all that is known once more in their streams, every other second, so that they stay connected.
use super::record::{DebugRecord, FILES};
use crate::follow::LineFollower;
use adamant_train::{Failure, control::ControlClient};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Pages at once.
const MOST_PAGES: usize = 16;
/// Events that may wait for a page.
const MOST_WAITING: usize = 256;
/// Bytes of lines in an event, and lines: more are told as if all began anew.
const EVENT_BYTES: usize = 256 << 10;
const MOST_LINES: usize = 2000;
/// How often the files are read.
const READS: Duration = Duration::from_millis(200);
/// How often pages are told all anew, where lines come faster than they are told.
const ANEW: Duration = Duration::from_secs(2);
/// How often the run is asked where it is.
const ASKS: Duration = Duration::from_millis(500);
/// Small files that are told whole, and the largest that are.
const DOCUMENTS: [&str; 4] = ["failure.json", "result.json", "environment.json", "architecture.json"];
const MOST_DOCUMENT: u64 = 1 << 20;

/// What a page is told: the name of an event, and JSON in one line.
pub struct PageEvent {
    pub name: &'static str,
    pub data: String,
}
/// What is known of a run.
#[derive(Default)]
pub struct KnownRun {
    pub record: DebugRecord,
    /// what the run says of itself, or why it says nothing
    pub status: Value,
    /// the small files, by name
    documents: Vec<(&'static str, Value)>,
    /// why files cannot be read, if they cannot
    trouble: Option<String>,
    pages: Vec<Sender<Arc<PageEvent>>>,
}
/// A page's stream: what is known, then what comes.
pub struct PageStream {
    pub known: Vec<Arc<PageEvent>>,
    pub comes: Receiver<Arc<PageEvent>>,
}
/// Shared by the threads and the server.
pub struct Feed {
    known: Mutex<KnownRun>,
}
impl Feed {
    pub fn known(&self) -> MutexGuard<'_, KnownRun> {
        // A thread that failed leaves lines that are whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Opens a page's stream; none where there are too many.
    pub fn open(&self) -> Option<PageStream> {
        let mut known = self.known();
        known.pages.retain(|page| !page.is_closed());
        if known.pages.len() >= MOST_PAGES {
            return None;
        }
        let (tells, comes) = channel(MOST_WAITING);
        known.pages.push(tells);
        Some(PageStream { known: known.all(), comes })
    }
}
fn event(name: &'static str, data: &Value) -> Arc<PageEvent> {
    Arc::new(PageEvent { name, data: data.to_string() })
}
/// Lines of a file, in as many events as their bytes need.
fn lines_events(file: usize, lines: &[Arc<str>]) -> Vec<Arc<PageEvent>> {
    let name = FILES.get(file).copied().unwrap_or_default();
    let (mut events, mut data) = (Vec::new(), String::new());
    let mut end = |data: &mut String| {
        if !data.is_empty() {
            events.push(Arc::new(PageEvent { name, data: format!("[{data}]") }));
            data.clear();
        }
    };
    for line in lines {
        if data.len() + line.len() > EVENT_BYTES {
            end(&mut data);
        }
        if !data.is_empty() {
            data.push(',');
        }
        data.push_str(line);
    }
    end(&mut data);
    events
}
impl KnownRun {
    /// What a page begins with.
    fn all(&self) -> Vec<Arc<PageEvent>> {
        let mut events = vec![event("begin", &Value::Null), event("status", &self.status)];
        events.extend(self.documents.iter().map(|(name, value)| document(name, value)));
        (0..FILES.len()).for_each(|file| events.extend(lines_events(file, &self.record.told(file))));
        events.push(self.whole());
        events
    }
    fn whole(&self) -> Arc<PageEvent> {
        event("whole", &json!({ "unread": self.record.unread(), "trouble": self.trouble }))
    }
    fn tell(&mut self, events: &[Arc<PageEvent>]) {
        self.pages.retain(|page| events.iter().all(|event| page.try_send(event.clone()).is_ok()));
    }
    /// Every page begins anew, in its stream.
    fn begin_anew(&mut self) {
        if !self.pages.is_empty() {
            let all = self.all();
            self.tell(&all);
        }
    }
}
fn document(name: &str, value: &Value) -> Arc<PageEvent> {
    event("document", &json!({ "name": name, "value": value }))
}

/// Begins to follow the run in a folder.
///
/// # Errors
/// `Run`: the system gives no threads.
pub fn start(run: &Path) -> Result<Arc<Feed>, Failure> {
    let feed = Arc::new(Feed { known: Mutex::default() });
    let failed = |e: std::io::Error| Failure::Run(format!("no thread to follow the run: {e}"));
    let mut files = FollowedFiles::of(run);
    // Small files are known before anybody looks; of large ones a part.
    let mut is_behind = files.read_on(&feed);
    let follows = feed.clone();
    let follow = move || {
        loop {
            if !is_behind {
                std::thread::sleep(READS);
            }
            is_behind = files.read_on(&follows);
        }
    };
    std::thread::Builder::new().name("follow".into()).spawn(follow).map_err(failed)?;
    let (asks, folder) = (feed.clone(), run.to_path_buf());
    std::thread::Builder::new().name("status".into()).spawn(move || ask_status(&folder, &asks)).map_err(failed)?;
    Ok(feed)
}
/// The files of a run, and how far they were read.
struct FollowedFiles {
    files: Vec<LineFollower>,
    documents: Vec<SeenDocument>,
    /// more came than pages are told line by line
    catches_up: bool,
    /// when pages began anew the last time
    anew: Option<Instant>,
}
impl FollowedFiles {
    fn of(folder: &Path) -> FollowedFiles {
        FollowedFiles {
            files: FILES.iter().map(|name| LineFollower::new(folder.join(format!("{name}.jsonl")))).collect(),
            documents: DOCUMENTS.iter().map(|name| SeenDocument::of(folder, name)).collect(),
            catches_up: false,
            anew: None,
        }
    }
    /// Reads on in each of them, a few MiB of it, and tells the pages. Is there more?
    fn read_on(&mut self, feed: &Feed) -> bool {
        let (mut is_behind, mut trouble) = (false, None);
        for (file, follower) in self.files.iter_mut().enumerate() {
            let grown = match follower.read_on() {
                Ok(grown) => grown,
                Err(e) => {
                    trouble = Some(format!("{}: {e}", follower.path().display()));
                    continue;
                }
            };
            is_behind |= grown.more;
            self.catches_up |= grown.more || grown.anew || grown.lines.len() > MOST_LINES;
            if grown.lines.is_empty() && !grown.anew {
                continue;
            }
            let mut known = feed.known();
            if grown.anew {
                known.record.forget(file);
            }
            let unread = known.record.unread();
            let told: Vec<Arc<str>> = grown.lines.iter().filter_map(|line| known.record.take(file, line)).collect();
            if !self.catches_up {
                let mut events = lines_events(file, &told);
                events.extend((known.record.unread() != unread).then(|| known.whole()));
                known.tell(&events);
            }
        }
        for seen in &mut self.documents {
            if let Some(value) = seen.news() {
                let mut known = feed.known();
                known.documents.retain(|(name, _)| *name != seen.name);
                known.documents.push((seen.name, value.clone()));
                known.tell(&[document(seen.name, &value)]);
            }
        }
        let mut known = feed.known();
        if known.trouble != trouble {
            known.trouble = trouble;
            let whole = known.whole();
            known.tell(&[whole]);
        }
        if self.catches_up && !is_behind && self.anew.is_none_or(|at| at.elapsed() >= ANEW) {
            known.begin_anew();
            (self.catches_up, self.anew) = (false, Some(Instant::now()));
        }
        is_behind
    }
}
/// A small file, and which of its states was told.
struct SeenDocument {
    name: &'static str,
    path: PathBuf,
    told: Option<(u64, Option<SystemTime>)>,
}
impl SeenDocument {
    fn of(folder: &Path, name: &'static str) -> SeenDocument {
        SeenDocument { name, path: folder.join(name), told: None }
    }
    /// What stands in it, where that was not told: null where it is gone, or is no JSON.
    fn news(&mut self) -> Option<Value> {
        let about = std::fs::metadata(&self.path).ok().filter(std::fs::Metadata::is_file).map(|file| (file.len(), file.modified().ok()));
        if about == self.told {
            return None;
        }
        self.told = about;
        let small = about.filter(|(bytes, _)| *bytes <= MOST_DOCUMENT);
        let value = small.and_then(|_| std::fs::read(&self.path).ok()).and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Some(value.unwrap_or(Value::Null))
    }
}
/// Asks the run where it is, for as long as the program lives.
fn ask_status(folder: &Path, feed: &Feed) {
    let mut client: Option<ControlClient> = None;
    loop {
        if client.is_none() {
            client = ControlClient::attach(folder).ok();
        }
        let status = match client.as_mut().map(ControlClient::status) {
            Some(Ok(status)) => serde_json::to_value(status).unwrap_or_default(),
            _ => {
                client = None;
                json!({ "state": "not running" })
            }
        };
        let mut known = feed.known();
        if known.status != status {
            known.status = status;
            let told = event("status", &known.status);
            known.tell(&[told]);
        }
        drop(known);
        std::thread::sleep(ASKS);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_page_that_does_not_keep_up_and_is_told_on() {
        let mut known = KnownRun::default();
        let (tells, mut comes) = channel(MOST_WAITING);
        known.pages.push(tells);
        for _ in 0..MOST_WAITING + 5 {
            known.tell(&[event("status", &Value::Null)]);
        }
        assert!(known.pages.is_empty());
        let mut came = 0;
        while comes.blocking_recv().is_some() {
            came += 1;
        }
        assert_eq!(came, MOST_WAITING);
    }
    #[test]
    fn a_run_that_is_faster_than_its_lines_are_told_drops_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("metrics.jsonl");
        let line = |k: usize| json!({ "kind": "step", "step": k, "loss": 1.0 }).to_string() + "\n";
        std::fs::write(&file, line(0)).unwrap();
        let feed = Feed { known: Mutex::default() };
        let mut files = FollowedFiles::of(folder.path());
        while files.read_on(&feed) {}
        let mut page = feed.open().unwrap();
        let mut began = 0;
        for round in 1..4 {
            let more: String = (0..2 * MOST_LINES).map(|k| line(2 * MOST_LINES * round + k)).collect();
            std::fs::OpenOptions::new().append(true).open(&file).and_then(|mut f| std::io::Write::write_all(&mut f, more.as_bytes())).unwrap();
            while files.read_on(&feed) {}
            while let Ok(event) = page.comes.try_recv() {
                began += usize::from(event.name == "begin");
            }
            assert!(!page.comes.is_closed() && feed.known().pages.len() == 1, "round {round}: the page was dropped");
        }
        // Once at first; not again before its time has come.
        assert_eq!(began, 1);
    }
    #[test]
    fn pages_without_end_and_lines_in_one_event() {
        let feed = Feed { known: Mutex::default() };
        let open: Vec<_> = (0..MOST_PAGES).map(|_| feed.open().unwrap()).collect();
        assert!(feed.open().is_none());
        drop(open);
        assert_eq!(feed.open().unwrap().known.last().unwrap().name, "whole");
        let lines: Vec<Arc<str>> = (0..10).map(|k| json!({ "k": k, "x": "y".repeat(EVENT_BYTES / 3) }).to_string().into()).collect();
        let events = lines_events(0, &lines);
        let back: Vec<Value> = events.iter().flat_map(|e| serde_json::from_str::<Vec<Value>>(&e.data).unwrap()).collect();
        assert!(events.len() == 5 && back.iter().enumerate().all(|(k, v)| v["k"] == k), "{}", events.len());
    }
}
