//! Who touched which place when: what tells races. In essence FastTrack's (Flanagan and Freund, 2009): of each place the last
//! write and the last read, with a clock that says whether they came before.
//!
//! Notes are kept for each word of four bytes, of shared and of global memory alike: two writes (a word may be written in
//! two halves by two threads), a read, and the instructions of both. A clock belongs to a warp and ticks when the warp
//! synchronises; what a warp knows of the others' clocks comes with barriers. A block has a serial that no other block of
//! any launch has: what carries a serial from before the launch came before it.
//!
//! Between blocks nothing orders accesses but one pattern: a fence, then an atomic on a word; an atomic on that word by
//! another block, afterwards. What the first block did before its fence is then known to all of the second.
//! Atomics do not race among each other, nor with volatile or relaxed accesses.
mod touched;

pub use touched::touched;

use crate::memory::ZeroedBytes;
use parking_lot::{Mutex, RwLock};
use std::{
    collections::HashMap,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// Bytes of notes for a word.
pub const NOTES: u64 = 32;
/// Clocks end here, and the block goes on under a new serial.
const LAST_CLOCK: u32 = 0xfff0;
/// The most warps of a block.
pub const WARPS: usize = 32;

/// Serials of blocks, of all launches of the process.
static SERIALS: AtomicU32 = AtomicU32::new(1);

fn new_serial() -> u32 {
    SERIALS.fetch_add(1, Relaxed)
}

/// An access, noted in a word of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AccessNote {
    serial: u32,
    clock: u32,
    warp: u32,
    lane: u32,
    bytes: u32,
    /// Of a read: who else read. Of a write: 1 if it is atomic.
    level: u32,
}

/// Levels of a read: one lane, several of a warp, several warps, several blocks.
const LANES: u32 = 1;
const WARPS_READ: u32 = 2;
const BLOCKS_READ: u32 = 3;

impl AccessNote {
    #[inline(always)]
    fn pack(self) -> u64 {
        u64::from(self.serial) << 32 | u64::from(self.clock << 16 | self.warp << 11 | self.lane << 6 | self.bytes << 2 | self.level)
    }
    #[inline(always)]
    fn of(word: u64) -> AccessNote {
        let low = word as u32;
        AccessNote { serial: (word >> 32) as u32, clock: low >> 16, warp: low >> 11 & 31, lane: low >> 6 & 31, bytes: low >> 2 & 15, level: low & 3 }
    }
}

/// What a warp knows.
#[derive(Clone)]
struct WarpClock {
    now: u32,
    /// What any lane did before it, all lanes know.
    lanes: u32,
    /// What each other warp did before it, this one knows.
    known: [u32; WARPS],
    /// Of each lane, what it knows of the others: only since lanes synchronised that were not all.
    partial: Option<Box<[[u32; 32]; 32]>>,
    /// What it and those it knows of had done at its last fence.
    fenced: Option<[u32; WARPS]>,
}

impl WarpClock {
    fn new() -> WarpClock {
        WarpClock { now: 1, lanes: 1, known: [0; WARPS], partial: None, fenced: None }
    }
}

/// What a block has handed to others: of each serial, what is known of its warps' clocks.
type Known = HashMap<u32, [u32; WARPS]>;

/// The serial that the next block gets, of whichever launch: what a launch gave out lies between two answers.
pub fn next_serial() -> u32 {
    SERIALS.load(Relaxed)
}
/// Serials of a launch: the first, and the one after the last.
pub type Serials = (u32, u32);

/// What a launch's blocks know of each other.
pub struct Launched {
    base: u32,
    /// Earlier launches that nothing orders with this one.
    unordered: Vec<Serials>,
    pub serials: RwLock<HashMap<u32, u32>>,
    published: Mutex<HashMap<u64, Known>>,
    has_fences: bool,
}

impl Launched {
    pub fn new(has_fences: bool, unordered: &[Serials]) -> Launched {
        Launched { base: new_serial(), unordered: unordered.to_vec(), serials: RwLock::default(), published: Mutex::default(), has_fences }
    }
}

impl Launched {
    /// Is it of an earlier launch that nothing orders with this one?
    #[inline(always)]
    fn is_unordered(&self, serial: u32) -> bool {
        !self.unordered.is_empty() && self.unordered.iter().any(|(first, end)| (*first..*end).contains(&serial))
    }
}

/// Who meets whom in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encounter {
    pub serial: u32,
    pub warp: u32,
    pub lane: u32,
    /// 0 if it is not known.
    pub instruction: u32,
    pub wrote: bool,
    pub kind: RaceReach,
}

/// How far apart they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RaceReach {
    Lanes,
    Warps,
    Blocks,
    Launches,
}

/// Who accesses.
#[derive(Debug, Clone, Copy)]
pub struct Party {
    pub warp: u32,
    pub lane: u32,
    pub instruction: u32,
}

/// What a block notes and knows.
pub struct RaceWatch<'l> {
    launched: &'l Launched,
    block: u32,
    serial: u32,
    /// Serials that the block had before.
    own: Vec<u32>,
    clocks: Vec<WarpClock>,
    /// What came before it in any warp, all warps know.
    everyone: u32,
    /// Some barrier was not for all: then who else read a place is not known for sure.
    named: bool,
    acquired: Known,
}

impl<'l> RaceWatch<'l> {
    pub fn new(launched: &'l Launched, block: u32, warps: usize) -> RaceWatch<'l> {
        let mut watch =
            RaceWatch { launched, block, serial: 0, own: Vec::new(), clocks: vec![WarpClock::new(); warps], everyone: 1, named: false, acquired: Known::new() };
        watch.take_serial();
        watch
    }
    fn take_serial(&mut self) {
        self.serial = new_serial();
        self.launched.serials.write().insert(self.serial, self.block);
    }
    /// Under a new serial clocks begin anew; what came before counts as known.
    fn renew(&mut self) {
        self.own.push(self.serial);
        self.take_serial();
        self.clocks.fill(WarpClock::new());
        self.everyone = 1;
    }
    fn tick(&mut self, warp: usize) -> u32 {
        if self.clocks[warp].now >= LAST_CLOCK {
            self.renew();
        }
        self.clocks[warp].now += 1;
        self.clocks[warp].now
    }
    /// Lanes of a warp synchronised; `all`: all that are there.
    pub fn sync_lanes(&mut self, warp: usize, mask: u32, all: bool) {
        let now = self.tick(warp);
        let clock = &mut self.clocks[warp];
        if all {
            clock.lanes = now;
            clock.partial = None;
            return;
        }
        let known = clock.partial.get_or_insert_with(|| Box::new([[0; 32]; 32]));
        let mut joined = [0; 32];
        for lane in super::registers::lanes(mask) {
            for (j, k) in joined.iter_mut().zip(&known[lane]) {
                *j = (*j).max(*k);
            }
        }
        for lane in super::registers::lanes(mask) {
            joined[lane] = now;
        }
        for lane in super::registers::lanes(mask) {
            known[lane] = joined;
        }
    }
    /// All warps met at a barrier.
    pub fn sync_all(&mut self) {
        let most = self.clocks.iter().map(|c| c.now).max().unwrap_or(0);
        if most >= LAST_CLOCK {
            return self.renew();
        }
        let now = most + 1;
        self.everyone = now;
        for clock in &mut self.clocks {
            (clock.now, clock.lanes, clock.known, clock.partial) = (now, now, [now; WARPS], None);
        }
    }
    /// What a warp hands over at a barrier that is not for all.
    pub fn hand_over(&mut self, warp: usize, into: &mut [u32; WARPS]) {
        self.named = true;
        let serial = self.serial;
        let now = self.tick(warp);
        if self.serial != serial {
            into.fill(0);
        }
        let clock = &mut self.clocks[warp];
        clock.lanes = now;
        clock.partial = None;
        join(into, &clock.known);
        into[warp] = now;
    }
    /// What a warp is given there.
    pub fn take_over(&mut self, warp: usize, from: &[u32; WARPS]) {
        join(&mut self.clocks[warp].known, from);
    }
    pub fn fence(&mut self, warp: usize) {
        if self.launched.has_fences {
            let now = self.tick(warp);
            let mut done = self.clocks[warp].known;
            done[warp] = now;
            self.clocks[warp].fenced = Some(done);
        }
    }
    /// Before a warp writes a word of device memory by an atomic or another strong access: what it did up to its last fence is
    /// known to whoever reads the word so.
    pub fn publish(&mut self, warp: usize, address: u64, releases: bool) {
        if !self.launched.has_fences {
            return;
        }
        if releases {
            self.fence(warp);
        }
        let Some(done) = self.clocks[warp].fenced else { return };
        let mut published = self.launched.published.lock();
        let place = published.entry(address).or_default();
        let mine = place.entry(self.serial).or_insert([0; WARPS]);
        if mine.iter().zip(&done).any(|(m, d)| m < d) {
            join(mine, &done);
            for serial in &self.own {
                place.insert(*serial, [u32::MAX; WARPS]);
            }
            for (serial, clocks) in &self.acquired {
                join(place.entry(*serial).or_insert([0; WARPS]), clocks);
            }
        }
    }
    /// After a warp read a word of device memory so: it knows what was published there.
    pub fn acquire(&mut self, address: u64) {
        if self.launched.has_fences
            && let Some(known) = self.launched.published.lock().get(&address)
        {
            for (serial, clocks) in known {
                join(self.acquired.entry(*serial).or_insert([0; WARPS]), clocks);
            }
        }
    }

    /// Whether a note came before what a lane does now.
    #[inline(always)]
    fn before(&self, note: &AccessNote, me: &Party) -> Option<RaceReach> {
        if note.serial == self.serial {
            let clock = &self.clocks[me.warp as usize];
            if note.warp == me.warp {
                if note.lane == me.lane || note.clock < clock.lanes {
                    return None;
                }
                let known = clock.partial.as_ref().map_or(0, |k| k[me.lane as usize][note.lane as usize]);
                return (note.clock >= known).then_some(RaceReach::Lanes);
            }
            return (note.clock >= clock.known[note.warp as usize]).then_some(RaceReach::Warps);
        }
        self.other_block(note)
    }
    #[cold]
    fn other_block(&self, note: &AccessNote) -> Option<RaceReach> {
        if note.serial <= self.launched.base {
            return self.launched.is_unordered(note.serial).then_some(RaceReach::Launches);
        }
        if self.own.contains(&note.serial) {
            return None;
        }
        let known = self.acquired.get(&note.serial).is_some_and(|k| k[note.warp as usize] > note.clock);
        (!known).then_some(RaceReach::Blocks)
    }
    #[inline(always)]
    fn recent(&self, note: &AccessNote, shared: bool) -> bool {
        // Of shared memory, what a block before left behind is nobody's.
        note.serial == self.serial || !shared && (note.serial > self.launched.base || self.launched.is_unordered(note.serial))
    }
    fn meeting(&self, note: AccessNote, kind: RaceReach, instruction: u32, wrote: bool) -> Encounter {
        Encounter { serial: note.serial, warp: note.warp, lane: note.lane, instruction, wrote, kind }
    }
    /// A lane reads bytes of a word; `strong` accesses race with plain writes alone and are not noted.
    #[inline(always)]
    pub fn read(&self, (notes, shared): (&ZeroedBytes, bool), word: u64, bytes: u32, me: Party, strong: bool) -> Option<Encounter> {
        let at = word * NOTES;
        let first = AccessNote::of(notes.word64(at).load(Relaxed));
        if self.recent(&first, shared) {
            if first.bytes & bytes != 0
                && !(strong && first.level == 1)
                && let Some(kind) = self.before(&first, &me)
            {
                return Some(self.meeting(first, kind, notes.word64(at + 24).load(Relaxed) as u32, true));
            }
            if first.bytes != 15 {
                let second = AccessNote::of(notes.word64(at + 16).load(Relaxed));
                if self.recent(&second, shared)
                    && second.bytes & bytes != 0
                    && !(strong && second.level == 1)
                    && let Some(kind) = self.before(&second, &me)
                {
                    return Some(self.meeting(second, kind, 0, true));
                }
            }
        }
        if !strong {
            self.note_read(notes, shared, at, bytes, me);
        }
        None
    }
    #[inline(always)]
    fn note_read(&self, notes: &ZeroedBytes, shared: bool, at: u64, bytes: u32, me: Party) {
        let place = notes.word64(at + 8);
        let old = AccessNote::of(place.load(Relaxed));
        let clock = &self.clocks[me.warp as usize];
        let mut new = AccessNote { serial: self.serial, clock: clock.now, warp: me.warp, lane: me.lane, bytes, level: 0 };
        if self.recent(&old, shared) {
            if old.serial == self.serial {
                if old.clock >= self.everyone {
                    if old.level >= WARPS_READ || old.warp != me.warp {
                        new.level = old.level.max(WARPS_READ);
                    } else if old.clock >= clock.lanes && (old.lane != me.lane || old.level == LANES) {
                        new.level = LANES;
                    }
                    if new.level != 0 || old.lane == me.lane {
                        new.bytes |= old.bytes;
                    }
                } else if old.level == BLOCKS_READ {
                    new.level = BLOCKS_READ;
                    new.bytes |= old.bytes;
                }
            } else if self.own.is_empty() || !self.own.contains(&old.serial) {
                new.level = BLOCKS_READ;
                new.bytes |= old.bytes;
            }
            // Only of bytes that both read it is known that several did.
            if new.level != 0 {
                let both = old.bytes & bytes;
                (new.level, new.bytes) = if both == 0 { (0, bytes) } else { (new.level, both) };
            }
        }
        place.store(new.pack(), Relaxed);
        // Which instruction read is only for reports: two threads of the host may mix it up.
        let instructions = notes.word64(at + 24);
        let others = instructions.load(Relaxed) & 0xffff_ffff;
        instructions.store(others | u64::from(me.instruction) << 32, Relaxed);
    }
    /// A lane writes bytes of a word. `same`: they are what is there already, which the lanes of one instruction may do.
    #[inline(always)]
    pub fn write(&self, (notes, shared): (&ZeroedBytes, bool), word: u64, bytes: u32, me: Party, atomic: bool, same: bool) -> Option<Encounter> {
        let at = word * NOTES;
        let first = AccessNote::of(notes.word64(at).load(Relaxed));
        let instructions = notes.word64(at + 24).load(Relaxed);
        let mut keep = false;
        if self.recent(&first, shared) {
            if let Some(meeting) = self.meets(&first, bytes, me, atomic, same, instructions as u32) {
                return Some(meeting);
            }
            if first.bytes != 15 {
                let second = AccessNote::of(notes.word64(at + 16).load(Relaxed));
                if self.recent(&second, shared)
                    && let Some(meeting) = self.meets(&second, bytes, me, atomic, same, 0)
                {
                    return Some(meeting);
                }
            }
            keep = first.bytes & !bytes != 0;
        }
        let read = AccessNote::of(notes.word64(at + 8).load(Relaxed));
        if self.recent(&read, shared)
            && read.bytes & bytes != 0
            && let Some(kind) = self.reads_meet(&read, &me)
        {
            return Some(self.meeting(read, kind, (instructions >> 32) as u32, false));
        }
        if keep {
            notes.word64(at + 16).store(first.pack(), Relaxed);
        }
        let now = self.clocks[me.warp as usize].now;
        let new = AccessNote { serial: self.serial, clock: now, warp: me.warp, lane: me.lane, bytes, level: u32::from(atomic) };
        notes.word64(at).store(new.pack(), Relaxed);
        notes.word64(at + 24).store(instructions & !0xffff_ffff | u64::from(me.instruction), Relaxed);
        None
    }
    #[inline(always)]
    fn meets(&self, note: &AccessNote, bytes: u32, me: Party, atomic: bool, same: bool, instruction: u32) -> Option<Encounter> {
        if note.bytes & bytes == 0 || atomic && note.level == 1 {
            return None;
        }
        let kind = self.before(note, &me)?;
        if kind == RaceReach::Lanes && same && instruction == me.instruction {
            return None;
        }
        Some(self.meeting(*note, kind, instruction, true))
    }
    #[inline(always)]
    fn reads_meet(&self, read: &AccessNote, me: &Party) -> Option<RaceReach> {
        match read.level {
            BLOCKS_READ if read.serial == self.serial => Some(RaceReach::Blocks),
            WARPS_READ if read.serial == self.serial && read.warp == me.warp => {
                // Which other warp read is not known, only that one did since all met.
                (read.clock >= self.everyone && !self.named).then_some(RaceReach::Warps)
            }
            LANES if read.serial == self.serial && read.warp == me.warp => {
                let clock = &self.clocks[me.warp as usize];
                (read.clock >= clock.lanes && clock.partial.is_none()).then_some(RaceReach::Lanes)
            }
            _ => self.before(read, me),
        }
    }
}

/// Of each warp what either knows.
fn join(into: &mut [u32; WARPS], from: &[u32; WARPS]) {
    for (i, f) in into.iter_mut().zip(from) {
        *i = (*i).max(*f);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u32 = 15;

    fn party(warp: u32, lane: u32) -> Party {
        Party { warp, lane, instruction: 7 }
    }
    struct Field {
        launched: &'static Launched,
        notes: ZeroedBytes,
    }
    fn field() -> Field {
        Field { launched: Box::leak(Box::new(Launched::new(true, &[]))), notes: ZeroedBytes::new(NOTES * 4).unwrap() }
    }
    fn kind(meeting: Option<Encounter>) -> Option<RaceReach> {
        meeting.map(|m| m.kind)
    }
    #[test]
    fn lanes_meet_unless_their_warp_synchronised() {
        let f = field();
        let mut w = RaceWatch::new(f.launched, 0, 2);
        assert_eq!(kind(w.write((&f.notes, false), 0, ALL, party(0, 1), false, false)), None);
        assert_eq!(kind(w.read((&f.notes, false), 0, ALL, party(0, 1), false)), None, "a lane knows its own");
        assert_eq!(kind(w.read((&f.notes, false), 0, ALL, party(0, 2), false)), Some(RaceReach::Lanes));
        assert_eq!(kind(w.write((&f.notes, false), 1, ALL, party(0, 1), false, false)), None);
        assert_eq!(kind(w.write((&f.notes, false), 1, ALL, party(0, 2), false, true)), None, "the same value by the same instruction");
        w.sync_lanes(0, 0b1100, false);
        assert_eq!(kind(w.read((&f.notes, false), 1, ALL, party(0, 3), false)), None, "lanes 2 and 3 met");
        assert_eq!(kind(w.read((&f.notes, false), 1, ALL, party(0, 4), false)), Some(RaceReach::Lanes), "lane 4 was not there");
        w.sync_lanes(0, u32::MAX, true);
        assert_eq!(kind(w.read((&f.notes, false), 1, ALL, party(0, 4), false)), None);
        assert_eq!(kind(w.read((&f.notes, false), 1, ALL, party(1, 0), false)), Some(RaceReach::Warps));
    }
    #[test]
    fn warps_meet_unless_a_barrier_lies_between() {
        let f = field();
        let mut w = RaceWatch::new(f.launched, 0, 3);
        w.write((&f.notes, false), 0, ALL, party(0, 0), false, false);
        w.sync_all();
        assert_eq!(kind(w.read((&f.notes, false), 0, ALL, party(1, 0), false)), None);
        assert_eq!(kind(w.read((&f.notes, false), 0, ALL, party(2, 0), false)), None);
        assert_eq!(kind(w.write((&f.notes, false), 0, ALL, party(2, 0), false, false)), Some(RaceReach::Warps), "warp 1 read, too");
        w.sync_all();
        assert_eq!(kind(w.write((&f.notes, false), 0, ALL, party(2, 0), false, false)), None);
        let mut handed = [0; WARPS];
        w.hand_over(2, &mut handed);
        assert_eq!(kind(w.read((&f.notes, false), 0, ALL, party(1, 0), false)), Some(RaceReach::Warps));
        w.take_over(1, &handed);
        assert_eq!(kind(w.read((&f.notes, false), 0, ALL, party(1, 0), false)), None);
        assert_eq!(kind(w.read((&f.notes, false), 0, ALL, party(0, 0), false)), Some(RaceReach::Warps), "warp 0 was not there");
    }
    #[test]
    fn who_read_one_half_did_not_read_the_other() {
        let f = field();
        let mut w = RaceWatch::new(f.launched, 0, 2);
        for (word, other) in [(0, party(0, 2)), (1, party(1, 0))] {
            assert_eq!(kind(w.read((&f.notes, false), word, 3, party(0, 0), false)), None);
            assert_eq!(kind(w.read((&f.notes, false), word, 12, other, false)), None);
            assert_eq!(kind(w.write((&f.notes, false), word, 3, party(0, 0), false, false)), None);
            assert_eq!(kind(w.write((&f.notes, false), word, 12, other, false, false)), None);
        }
        assert_eq!(kind(w.read((&f.notes, false), 2, 3, party(0, 1), false)), None);
        w.sync_lanes(0, u32::MAX, true);
        assert_eq!(kind(w.read((&f.notes, false), 2, 12, party(0, 2), false)), None);
        assert_eq!(kind(w.write((&f.notes, false), 2, 3, party(0, 1), false, false)), None);
        assert_eq!(kind(w.write((&f.notes, false), 2, 12, party(0, 1), false, false)), Some(RaceReach::Lanes));
    }
    #[test]
    fn halves_of_a_word_are_apart() {
        let f = field();
        let w = RaceWatch::new(f.launched, 0, 2);
        assert_eq!(kind(w.write((&f.notes, false), 0, 3, party(0, 0), false, false)), None);
        assert_eq!(kind(w.write((&f.notes, false), 0, 12, party(1, 0), false, false)), None);
        assert_eq!(kind(w.read((&f.notes, false), 0, 3, party(0, 0), false)), None);
        assert_eq!(kind(w.read((&f.notes, false), 0, 3, party(1, 0), false)), Some(RaceReach::Warps));
        assert_eq!(kind(w.read((&f.notes, false), 0, 12, party(0, 0), false)), Some(RaceReach::Warps));
    }
    #[test]
    fn blocks_meet_unless_a_fence_and_an_atomic_order_them() {
        let f = field();
        let (mut a, mut b) = (RaceWatch::new(f.launched, 0, 1), RaceWatch::new(f.launched, 1, 1));
        let c = RaceWatch::new(f.launched, 2, 1);
        a.write((&f.notes, false), 0, ALL, party(0, 0), false, false);
        assert_eq!(kind(b.read((&f.notes, false), 0, ALL, party(0, 0), false)), Some(RaceReach::Blocks));
        assert_eq!(kind(b.write((&f.notes, false), 0, ALL, party(0, 0), true, false)), Some(RaceReach::Blocks));
        a.publish(0, 64, false);
        b.acquire(64);
        assert_eq!(kind(b.read((&f.notes, false), 0, ALL, party(0, 0), false)), Some(RaceReach::Blocks), "an atomic without a fence orders nothing");
        a.fence(0);
        a.publish(0, 64, false);
        b.acquire(64);
        assert_eq!(kind(b.read((&f.notes, false), 0, ALL, party(0, 0), false)), None);
        assert_eq!(kind(c.read((&f.notes, false), 0, ALL, party(0, 0), false)), Some(RaceReach::Blocks));
        let later = Launched::new(false, &[]);
        assert_eq!(kind(RaceWatch::new(&later, 0, 1).write((&f.notes, false), 0, ALL, party(0, 0), false, false)), None, "launches are one after another");
        // Atomics among each other, and reads among each other.
        for w in [&a, &b, &c] {
            assert_eq!(kind(w.write((&f.notes, false), 1, ALL, party(0, 0), true, false)), None);
            assert_eq!(kind(w.read((&f.notes, false), 2, ALL, party(0, 0), false)), None);
        }
        assert_eq!(kind(a.write((&f.notes, false), 2, ALL, party(0, 0), false, false)), Some(RaceReach::Blocks));
        assert_eq!(kind(c.write((&f.notes, false), 2, ALL, party(0, 0), false, false)), Some(RaceReach::Blocks));
    }
    #[test]
    fn shared_memory_is_a_blocks_own() {
        let f = field();
        let (a, b) = (RaceWatch::new(f.launched, 0, 1), RaceWatch::new(f.launched, 1, 1));
        assert_eq!(kind(a.write((&f.notes, true), 0, ALL, party(0, 0), false, false)), None);
        assert_eq!(kind(a.read((&f.notes, true), 0, ALL, party(0, 0), false)), None);
        assert_eq!(kind(b.write((&f.notes, true), 0, ALL, party(0, 0), false, false)), None);
        assert_eq!(kind(b.read((&f.notes, true), 0, ALL, party(0, 1), false)), Some(RaceReach::Lanes));
    }
    #[test]
    fn clocks_that_end_begin_anew() {
        let f = field();
        let mut w = RaceWatch::new(f.launched, 0, 1);
        w.write((&f.notes, false), 0, ALL, party(0, 0), false, false);
        for _ in 0..LAST_CLOCK + 5 {
            w.sync_lanes(0, u32::MAX, true);
        }
        assert_eq!(kind(w.read((&f.notes, false), 0, ALL, party(0, 1), false)), None);
        assert_eq!(kind(w.write((&f.notes, false), 1, ALL, party(0, 0), false, false)), None);
        assert_eq!(kind(w.read((&f.notes, false), 1, ALL, party(0, 1), false)), Some(RaceReach::Lanes));
    }
}
