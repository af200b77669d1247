//! A disk in memory that knows what is durable, for tests of what survives a crash.
//!
//! A file has the content that programs see and the content that was synced last. A folder has the names that programs
//! see, and those that were synced last together with the changes since, in order. [`Simulated::crash_at`] stops
//! everything before an operation; [`Simulated::restarted`] is the disk that the next process finds, with what was not
//! synced kept, dropped or torn ([`Fate`]).
//!
//! It is harsher than a journaling file system: torn changes of names survive each by itself, not in order, and torn
//! contents survive by sectors, those between them reading as zeros.
use super::{Entry, Lock, NewFile, OpenFile, Operation, Result, Storage, StorageError, StorageErrorKind};
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Component, Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Bytes that are torn as one.
const SECTOR: usize = 512;

/// What becomes of writes and names that were not synced when the power goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// All are found again.
    Kept,
    /// None is.
    Dropped,
    /// Some are, drawn by this number.
    Torn(u64),
}

/// A disk in memory. Clones are the same disk.
///
/// ```
/// use adamant_train::storage::{Storage, simulated::{Fate, Simulated}};
/// use std::path::Path;
/// let disk = Simulated::new();
/// disk.create_dir_all(Path::new("/a"))?;
/// disk.sync_dir(Path::new("/"))?;
/// disk.create(Path::new("/a/b"))?.write(b"never synced")?;
/// let found = disk.restarted(Fate::Dropped);
/// assert!(found.list(Path::new("/a"))?.is_empty());
/// # Ok::<(), adamant_train::storage::StorageError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Simulated(Arc<Mutex<DiskState>>);

#[derive(Clone, Debug, Default)]
struct DiskState {
    nodes: BTreeMap<u64, DiskNode>,
    next: u64,
    history: Vec<(Operation, PathBuf)>,
    crash_at: Option<u64>,
    fail_at: Option<(u64, StorageErrorKind)>,
    capacity: Option<u64>,
    lies: Vec<Operation>,
    locked: std::collections::BTreeSet<u64>,
}
#[derive(Clone, Debug)]
enum DiskNode {
    File { seen: Vec<u8>, synced: Vec<u8> },
    Folder(SimulatedFolder),
}
#[derive(Clone, Debug, Default)]
struct SimulatedFolder {
    seen: BTreeMap<OsString, u64>,
    synced: BTreeMap<OsString, u64>,
    changes: Vec<FolderChange>,
}
#[derive(Clone, Debug)]
enum FolderChange {
    Put(OsString, u64),
    Rename(OsString, OsString),
    Remove(OsString),
}
const ROOT: u64 = 0;

impl Simulated {
    /// An empty disk without bounds.
    pub fn new() -> Simulated {
        Simulated::default()
    }
    /// The operations that were begun, in order.
    pub fn history(&self) -> Vec<(Operation, PathBuf)> {
        self.state().history.clone()
    }
    /// The power goes out before the operation with this number (counted from 0 since the disk was made): it and all
    /// later ones fail.
    pub fn crash_at(&self, operation: u64) {
        self.state().crash_at = Some(operation);
    }
    /// The operation with this number fails in this way and changes nothing; those after it work.
    pub fn fail_at(&self, operation: u64, kind: StorageErrorKind) {
        self.state().fail_at = Some((operation, kind));
    }
    /// From now on it says that it has synced, but has not: a test of crashes that still passes finds nothing.
    pub fn lie_about(&self, sync: Operation) {
        self.state().lies.push(sync);
    }
    /// All contents together have at most this many bytes.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }
    /// Bytes of all contents.
    pub fn used(&self) -> u64 {
        self.state().used()
    }
    /// Did an operation run into [`Simulated::crash_at`]?
    pub fn crashed(&self) -> bool {
        let state = self.state();
        state.crash_at.is_some_and(|k| state.history.len() as u64 > k)
    }
    /// The disk as the next process finds it after the power went out now. Locks are gone, bounds are lifted, everything
    /// on it is durable; this disk is left as it is.
    pub fn restarted(&self, fate: Fate) -> Simulated {
        let before = self.state();
        let mut draw = FateDraw(match fate {
            Fate::Torn(seed) => seed,
            _ => 0,
        });
        let mut after = DiskState { next: before.next, ..DiskState::default() };
        after.carry(&before, ROOT, fate, &mut draw);
        Simulated(Arc::new(Mutex::new(after)))
    }
    /// Another disk with all that is on this one, durable or not.
    pub fn copied(&self) -> Simulated {
        let state = DiskState { history: Vec::new(), crash_at: None, fail_at: None, locked: Default::default(), ..self.state().clone() };
        Simulated(Arc::new(Mutex::new(state)))
    }
    /// Changes a file's content behind everyone's back, as rot does: it is durable at once.
    ///
    /// # Errors
    /// There is no such file.
    pub fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let mut state = self.state();
        let node = state.find(path).ok_or_else(|| StorageError::new(Operation::Write, path, StorageErrorKind::NotFound))?;
        match state.nodes.get_mut(&node) {
            Some(DiskNode::File { seen, synced }) => {
                change(seen);
                synced.clone_from(seen);
                Ok(())
            }
            _ => Err(StorageError::new(Operation::Write, path, StorageErrorKind::InTheWay)),
        }
    }
    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Counts an operation; it fails if it is the one that is to fail, or the power is out.
    fn begin(&self, op: Operation, path: &Path) -> Result<MutexGuard<'_, DiskState>> {
        let mut state = self.state();
        let number = state.history.len() as u64;
        state.history.push((op, path.to_path_buf()));
        if state.crash_at.is_some_and(|k| number >= k) {
            return Err(StorageError::new(op, path, StorageErrorKind::Io("the power is out".into())));
        }
        match &state.fail_at {
            Some((k, kind)) if *k == number => Err(StorageError::new(op, path, kind.clone())),
            _ => Ok(state),
        }
    }
}

impl DiskState {
    /// Bytes of the files that have a name; what was removed takes no space, though a crash may bring it back.
    fn used(&self) -> u64 {
        self.used_below(ROOT)
    }
    fn used_below(&self, id: u64) -> u64 {
        match self.nodes.get(&id) {
            Some(DiskNode::File { seen, .. }) => seen.len() as u64,
            Some(DiskNode::Folder(folder)) => folder.seen.values().map(|child| self.used_below(*child)).sum(),
            None => 0,
        }
    }
    fn folder(&self, node: u64) -> Option<&SimulatedFolder> {
        match self.nodes.get(&node) {
            Some(DiskNode::Folder(folder)) => Some(folder),
            _ => None,
        }
    }
    /// A folder; the root is there as soon as somebody asks.
    fn folder_mut(&mut self, node: u64) -> Option<&mut SimulatedFolder> {
        if node == ROOT {
            self.nodes.entry(ROOT).or_insert_with(|| DiskNode::Folder(SimulatedFolder::default()));
        }
        match self.nodes.get_mut(&node) {
            Some(DiskNode::Folder(folder)) => Some(folder),
            _ => None,
        }
    }
    fn find(&self, path: &Path) -> Option<u64> {
        let mut node = ROOT;
        for name in names(path) {
            node = *self.folder(node)?.seen.get(name)?;
        }
        Some(node)
    }
    /// The folder that holds a path's last name, and that name.
    fn parent(&self, op: Operation, path: &Path) -> Result<(u64, OsString)> {
        let missing = || StorageError::new(op, path, StorageErrorKind::NotFound);
        let name = names(path).last().ok_or_else(missing)?.to_os_string();
        let parent = self.find(path.parent().unwrap_or(Path::new(""))).ok_or_else(missing)?;
        match self.nodes.get(&parent) {
            Some(DiskNode::File { .. }) => Err(StorageError::new(op, path, StorageErrorKind::InTheWay)),
            _ => Ok((parent, name)),
        }
    }
    fn add(&mut self, parent: u64, name: OsString, node: DiskNode) -> u64 {
        self.next += 1;
        let id = self.next;
        self.nodes.insert(id, node);
        if let Some(folder) = self.folder_mut(parent) {
            folder.seen.insert(name.clone(), id);
            folder.changes.push(FolderChange::Put(name, id));
        }
        id
    }
    /// What a crash leaves of a node, with everything below it.
    fn carry(&mut self, before: &DiskState, id: u64, fate: Fate, draw: &mut FateDraw) {
        match before.nodes.get(&id) {
            Some(DiskNode::File { seen, synced }) => {
                let content = match fate {
                    Fate::Kept => seen.clone(),
                    Fate::Dropped => synced.clone(),
                    Fate::Torn(_) => torn(seen, synced, draw),
                };
                self.nodes.insert(id, DiskNode::File { seen: content.clone(), synced: content });
            }
            Some(DiskNode::Folder(folder)) => {
                let mut found = folder.synced.clone();
                for change in &folder.changes {
                    if fate == Fate::Kept || (fate != Fate::Dropped && draw.below(2) == 0) {
                        apply(change, &mut found);
                    }
                }
                for child in found.values() {
                    self.carry(before, *child, fate, draw);
                }
                self.nodes.insert(id, DiskNode::Folder(SimulatedFolder { seen: found.clone(), synced: found, changes: Vec::new() }));
            }
            None => {}
        }
    }
}
fn apply(change: &FolderChange, names: &mut BTreeMap<OsString, u64>) {
    match change {
        FolderChange::Put(name, id) => {
            names.insert(name.clone(), *id);
        }
        FolderChange::Rename(from, to) => {
            if let Some(id) = names.remove(from) {
                names.insert(to.clone(), id);
            }
        }
        FolderChange::Remove(name) => {
            names.remove(name);
        }
    }
}
/// A content between the synced and the seen one: a length between theirs, each sector old, new, or zeros where it was
/// never written.
fn torn(seen: &[u8], synced: &[u8], draw: &mut FateDraw) -> Vec<u8> {
    if seen == synced {
        return seen.to_vec();
    }
    let (short, long) = (seen.len().min(synced.len()), seen.len().max(synced.len()));
    let len = short + draw.below((long - short) as u64 + 1) as usize;
    let mut content = vec![0; len];
    for (k, sector) in content.chunks_mut(SECTOR).enumerate() {
        let from = if draw.below(2) == 0 { seen } else { synced };
        let old = from.get(k * SECTOR..).unwrap_or(&[]);
        let n = sector.len().min(old.len());
        sector[..n].copy_from_slice(&old[..n]);
    }
    content
}
fn names(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|c| if let Component::Normal(name) = c { Some(name) } else { None })
}
/// SplitMix64 (Steele, Lea, Flood 2014).
struct FateDraw(u64);
impl FateDraw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}

struct SimulatedFile {
    disk: Simulated,
    node: u64,
    path: PathBuf,
}
impl NewFile for SimulatedFile {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut state = self.disk.begin(Operation::Write, &self.path)?;
        let free = state.capacity.map(|c| c.saturating_sub(state.used()));
        let taken = free.map_or(bytes.len(), |free| bytes.len().min(free as usize));
        // A file that was removed meanwhile takes writes, as an open file does.
        if let Some(DiskNode::File { seen, .. }) = state.nodes.get_mut(&self.node) {
            seen.extend_from_slice(&bytes[..taken]);
        }
        if taken < bytes.len() {
            let kind = StorageErrorKind::Full { needed: bytes.len() as u64, free };
            return Err(StorageError::new(Operation::Write, &self.path, kind));
        }
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        let mut state = self.disk.begin(Operation::Sync, &self.path)?;
        if state.lies.contains(&Operation::Sync) {
            return Ok(());
        }
        if let Some(DiskNode::File { seen, synced }) = state.nodes.get_mut(&self.node) {
            synced.clone_from(seen);
        }
        Ok(())
    }
}
struct SimulatedReader {
    content: Vec<u8>,
    at: usize,
}
impl OpenFile for SimulatedReader {
    fn bytes(&self) -> u64 {
        self.content.len() as u64
    }
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        let n = into.len().min(self.content.len() - self.at);
        into[..n].copy_from_slice(&self.content[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}
struct HeldLock {
    disk: Simulated,
    node: u64,
}
impl Drop for HeldLock {
    fn drop(&mut self) {
        self.disk.state().locked.remove(&self.node);
    }
}

impl Storage for Simulated {
    fn create_dir_all(&self, path: &Path) -> Result<()> {
        let mut state = self.begin(Operation::CreateDir, path)?;
        let mut node = ROOT;
        for name in names(path) {
            let there = match state.folder_mut(node) {
                Some(folder) => folder.seen.get(name).copied(),
                None => return Err(StorageError::new(Operation::CreateDir, path, StorageErrorKind::InTheWay)),
            };
            node = match there {
                Some(id) => id,
                None => state.add(node, name.to_os_string(), DiskNode::Folder(SimulatedFolder::default())),
            };
        }
        state.folder_mut(node).map(|_| ()).ok_or_else(|| StorageError::new(Operation::CreateDir, path, StorageErrorKind::InTheWay))
    }
    fn create(&self, path: &Path) -> Result<Box<dyn NewFile>> {
        let mut state = self.begin(Operation::Create, path)?;
        let (parent, name) = state.parent(Operation::Create, path)?;
        if state.folder_mut(parent).is_none_or(|f| f.seen.contains_key(&name)) {
            return Err(StorageError::new(Operation::Create, path, StorageErrorKind::InTheWay));
        }
        let node = state.add(parent, name, DiskNode::File { seen: Vec::new(), synced: Vec::new() });
        Ok(Box::new(SimulatedFile { disk: self.clone(), node, path: path.to_path_buf() }))
    }
    fn open(&self, path: &Path) -> Result<Box<dyn OpenFile>> {
        let state = self.begin(Operation::Read, path)?;
        match state.find(path).and_then(|id| state.nodes.get(&id)) {
            Some(DiskNode::File { seen, .. }) => Ok(Box::new(SimulatedReader { content: seen.clone(), at: 0 })),
            Some(DiskNode::Folder(_)) => Err(StorageError::new(Operation::Read, path, StorageErrorKind::InTheWay)),
            None => Err(StorageError::new(Operation::Read, path, StorageErrorKind::NotFound)),
        }
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.begin(Operation::Rename, from)?;
        let fail = |kind| Err(StorageError::new(Operation::Rename, from, kind));
        let ((parent, old), (other, new)) = (state.parent(Operation::Rename, from)?, state.parent(Operation::Rename, to)?);
        if parent != other {
            return fail(StorageErrorKind::Io("another folder".into()));
        }
        let there = state.find(to);
        let full = there.and_then(|id| state.folder(id)).is_some_and(|f| !f.seen.is_empty());
        match state.folder_mut(parent) {
            Some(folder) if folder.seen.contains_key(&old) && !full => {
                let change = FolderChange::Rename(old, new);
                apply(&change, &mut folder.seen);
                folder.changes.push(change);
                Ok(())
            }
            Some(folder) if folder.seen.contains_key(&old) => fail(StorageErrorKind::InTheWay),
            _ => fail(StorageErrorKind::NotFound),
        }
    }
    fn sync_dir(&self, path: &Path) -> Result<()> {
        let mut state = self.begin(Operation::SyncDir, path)?;
        if state.lies.contains(&Operation::SyncDir) {
            return Ok(());
        }
        let folder = state.find(path).and_then(|id| state.folder_mut(id));
        let folder = folder.ok_or_else(|| StorageError::new(Operation::SyncDir, path, StorageErrorKind::NotFound))?;
        folder.synced.clone_from(&folder.seen);
        folder.changes.clear();
        Ok(())
    }
    fn list(&self, path: &Path) -> Result<Vec<Entry>> {
        let state = self.begin(Operation::List, path)?;
        match state.find(path).map(|id| (id, state.nodes.get(&id))) {
            Some((_, Some(DiskNode::Folder(f)))) => {
                Ok(f.seen.iter().map(|(name, id)| Entry { name: name.clone(), is_dir: state.folder(*id).is_some() }).collect())
            }
            Some((_, Some(DiskNode::File { .. }))) => Err(StorageError::new(Operation::List, path, StorageErrorKind::InTheWay)),
            Some((ROOT, None)) => Ok(Vec::new()),
            _ => Err(StorageError::new(Operation::List, path, StorageErrorKind::NotFound)),
        }
    }
    fn remove_file(&self, path: &Path) -> Result<()> {
        let mut state = self.begin(Operation::Remove, path)?;
        match state.find(path) {
            Some(id) if state.folder(id).is_some() => Err(StorageError::new(Operation::Remove, path, StorageErrorKind::InTheWay)),
            Some(_) => state.unlink(path),
            None => Ok(()),
        }
    }
    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        // Not one operation but one for each name, as the system does it.
        let entries = match self.list(path) {
            Err(e) if e.is_not_found() => return Ok(()),
            other => other?,
        };
        for entry in entries {
            let below = path.join(&entry.name);
            if entry.is_dir { self.remove_dir_all(&below)? } else { self.remove_file(&below)? }
        }
        self.begin(Operation::Remove, path)?.unlink(path)
    }
    fn free(&self, _path: &Path) -> Option<u64> {
        let state = self.state();
        state.capacity.map(|c| c.saturating_sub(state.used()))
    }
    fn lock(&self, folder: &Path) -> Result<Lock> {
        let mut state = self.begin(Operation::Lock, folder)?;
        let node = state.find(folder).ok_or_else(|| StorageError::new(Operation::Lock, folder, StorageErrorKind::NotFound))?;
        if !state.locked.insert(node) {
            return Err(StorageError::new(Operation::Lock, folder, StorageErrorKind::Locked(None)));
        }
        Ok(Lock::new(HeldLock { disk: self.clone(), node }))
    }
}
impl DiskState {
    fn unlink(&mut self, path: &Path) -> Result<()> {
        let (parent, name) = self.parent(Operation::Remove, path)?;
        if let Some(folder) = self.folder_mut(parent) {
            folder.seen.remove(&name);
            folder.changes.push(FolderChange::Remove(name));
        }
        Ok(())
    }
}
