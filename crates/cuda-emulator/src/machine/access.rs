//! Loads, stores and asynchronous copies of a warp, lane by lane.
use super::{
    arena::{IN_FLIGHT, MemoryView, Wrong},
    block::{KernelFault, Outcome, RunningBlock},
    finding::FindingKind,
    registers::lanes,
    step::{AccessStep, CopyAsync, Place},
    warp::PendingCopy,
    watch::{Encounter, Party, RaceReach, RaceWatch},
};
use crate::{memory::WRITTEN, ptx::StateSpace};

/// What a race is called by how far apart the two are.
pub fn race(kind: RaceReach) -> FindingKind {
    match kind {
        RaceReach::Lanes => FindingKind::RaceOfLanes,
        RaceReach::Warps => FindingKind::RaceOfThreads,
        RaceReach::Blocks => FindingKind::RaceOfBlocks,
        RaceReach::Launches => FindingKind::MissingEvent,
    }
}

/// What an access that goes wrong is called: its kind, who else, what to say.
pub type Trouble = (FindingKind, Option<Encounter>, &'static str);

pub fn wrong((kind, note): Wrong) -> Trouble {
    (kind, None, note)
}
fn meets(meeting: Option<Encounter>) -> Result<(), Trouble> {
    match meeting {
        None => Ok(()),
        Some(meeting) => Err((race(meeting.kind), Some(meeting), "")),
    }
}

/// Notes that bytes are read.
#[inline(always)]
pub fn note_read(watch: &RaceWatch<'_>, view: &MemoryView<'_>, at: u64, bytes: u32, me: Party, strong: bool) -> Result<(), Trouble> {
    let Some(notes) = view.notes.map(|notes| (notes, !view.global)) else { return Ok(()) };
    if bytes < 4 {
        return meets(watch.read(notes, at / 4, ((1 << bytes) - 1) << (at % 4), me, strong));
    }
    for word in at / 4..(at + u64::from(bytes)) / 4 {
        meets(watch.read(notes, word, 15, me, strong))?;
    }
    Ok(())
}
/// Notes that bytes are written.
#[inline(always)]
pub fn note_write(watch: &RaceWatch<'_>, view: &MemoryView<'_>, at: u64, bytes: u32, me: Party, atomic: bool, same: bool) -> Result<(), Trouble> {
    let Some(notes) = view.notes.map(|notes| (notes, !view.global)) else { return Ok(()) };
    if bytes < 4 {
        return meets(watch.write(notes, at / 4, ((1 << bytes) - 1) << (at % 4), me, atomic, same));
    }
    for word in at / 4..(at + u64::from(bytes)) / 4 {
        meets(watch.write(notes, word, 15, me, atomic, same))?;
    }
    Ok(())
}

impl RunningBlock<'_> {
    /// The address of a lane.
    #[inline(always)]
    pub fn address(&self, w: usize, place: &Place, lane: usize) -> u64 {
        let r = &self.warps[w].registers;
        let base = if place.wide { r.wide(place.base)[lane] } else { u64::from(r.words(place.base)[lane]) };
        let address = base.wrapping_add(place.offset as u64);
        // Addresses of 32 bits stay so.
        if place.wide { address } else { address & 0xffff_ffff }
    }
    #[cold]
    pub fn trouble<T>(&self, w: usize, lane: usize, address: u64, (kind, meeting, note): Trouble) -> Outcome<T> {
        let pc = self.warps[w].pc;
        Err(Box::new(KernelFault { kind, warp: w, lane, pc, address: Some(address), meeting, note: note.into() }))
    }
    /// A byte was read that nobody wrote. Maybe somebody is about to: then it is a race, and that is told instead.
    #[cold]
    pub fn doubt(&mut self, w: usize, lane: usize, address: u64, space: StateSpace) {
        if self.doubt.is_none() {
            let pc = self.warps[w].pc;
            let shared = self.arenas.is_shared(space, address);
            let fault = KernelFault { kind: FindingKind::ReadBeforeWritten, warp: w, lane, pc, address: Some(address), meeting: None, note: String::new() };
            self.doubt = Some((Box::new(fault), shared));
        }
    }
    pub fn load(&mut self, w: usize, access: &AccessStep, active: u32) -> Outcome<()> {
        let element = access.bytes;
        let total = element * access.values.len() as u32;
        for lane in lanes(active) {
            let address = self.address(w, &access.place, lane);
            let mut values = [0u64; 8];
            let me = self.party(w, lane);
            let space = access.place.space;
            let mut unwritten = false;
            let mut read = || -> Result<bool, Trouble> {
                let spot = self.arenas.locate(space, address, total.into(), w, lane, false).map_err(wrong)?;
                let view = self.arenas.view(spot);
                let piece = total.min(8);
                for k in 0..total / piece {
                    match view.readable(spot.at + u64::from(k * piece), piece) {
                        Err((FindingKind::ReadBeforeWritten, _)) if view.notes.is_some() => unwritten = true,
                        readable => readable.map_err(wrong)?,
                    }
                }
                note_read(&self.watch, &view, spot.at, total, me, access.strength.strong)?;
                for (k, value) in values.iter_mut().enumerate().take(access.values.len()) {
                    *value = view.load(spot.at + k as u64 * u64::from(element), element);
                }
                if access.strength.strong && view.global {
                    self.watch.acquire(address);
                }
                Ok(view.global)
            };
            match read() {
                Ok(global) => self.global_bytes += if global { u64::from(total) } else { 0 },
                Err(trouble) => return self.trouble(w, lane, address, trouble),
            }
            if unwritten {
                self.doubt(w, lane, address, access.place.space);
                values = [u64::MAX; 8];
            }
            let r = &mut self.warps[w].registers;
            for ((row, wide), value) in access.values.iter().zip(values) {
                let value = if access.signed {
                    let shift = 64 - 8 * element;
                    ((value << shift) as i64 >> shift) as u64
                } else {
                    value
                };
                if *wide {
                    r.wide_mut(*row)[lane] = value;
                } else {
                    r.words_mut(*row)[lane] = value as u32;
                }
            }
        }
        Ok(())
    }
    pub fn store(&mut self, w: usize, access: &AccessStep, active: u32) -> Outcome<()> {
        let element = access.bytes;
        let total = element * access.values.len() as u32;
        for lane in lanes(active) {
            let address = self.address(w, &access.place, lane);
            let me = self.party(w, lane);
            let space = access.place.space;
            let mut write = || -> Result<bool, Trouble> {
                let spot = self.arenas.locate(space, address, total.into(), w, lane, true).map_err(wrong)?;
                let view = self.arenas.view(spot);
                let r = &self.warps[w].registers;
                let value = |k: usize| {
                    let (row, wide) = access.values[k];
                    if wide { r.wide(row)[lane] } else { u64::from(r.words(row)[lane]) }
                };
                let piece = total.min(8);
                let mut same = true;
                if !view.global && view.notes.is_some() {
                    for k in 0..total / piece {
                        in_flight(view.states(spot.at + u64::from(k * piece), piece))?;
                    }
                }
                for k in 0..access.values.len() {
                    let low = if element == 8 { u64::MAX } else { (1 << (8 * element)) - 1 };
                    same &= view.load(spot.at + k as u64 * u64::from(element), element) == value(k) & low;
                }
                note_write(&self.watch, &view, spot.at, total, me, access.strength.strong, same)?;
                if access.strength.strong && view.global {
                    self.watch.publish(w, address, access.strength.release);
                }
                for k in 0..access.values.len() {
                    view.store(spot.at + k as u64 * u64::from(element), element, value(k));
                }
                for k in 0..total / piece {
                    view.set_states(spot.at + u64::from(k * piece), piece, WRITTEN);
                }
                Ok(view.global)
            };
            match write() {
                Ok(global) => self.global_bytes += if global { u64::from(total) } else { 0 },
                Err(trouble) => return self.trouble(w, lane, address, trouble),
            }
        }
        Ok(())
    }
    /// `cp.async`: what is read is read now; when it is there depends on the seed, and nobody may look before the wait.
    pub fn copy_async(&mut self, w: usize, copy: &CopyAsync, active: u32) -> Outcome<()> {
        for lane in lanes(active) {
            let (to, from) = (self.address(w, &copy.to, lane), self.address(w, &copy.from, lane));
            let r = &self.warps[w].registers;
            let mut bytes = copy.read.map_or(copy.bytes, |row| r.words(row)[lane]);
            if let Some((predicate, negated)) = copy.ignore
                && (r.predicate(predicate) >> lane & 1 == 1) != negated
            {
                bytes = 0;
            }
            if bytes > copy.bytes {
                return self.trouble(w, lane, from, (FindingKind::OutOfBounds, None, "more bytes are read than are copied"));
            }
            let me = self.party(w, lane);
            let mut data = [0u8; 16];
            let mut read = || -> Result<(), Trouble> {
                if bytes == 0 {
                    return Ok(());
                }
                // The address must be aligned for all of it, whatever part is read.
                if from % u64::from(copy.bytes) != 0 {
                    return Err((FindingKind::Misaligned, None, ""));
                }
                let piece = if bytes % 4 == 0 { 4 } else { 1 };
                for k in (0..bytes).step_by(piece as usize) {
                    let spot = self.arenas.locate(StateSpace::Global, from + u64::from(k), piece.into(), w, lane, false).map_err(wrong)?;
                    let view = self.arenas.view(spot);
                    view.readable(spot.at, piece).map_err(wrong)?;
                    note_read(&self.watch, &view, spot.at, piece, me, false)?;
                    let value = view.load(spot.at, piece).to_le_bytes();
                    data[k as usize..(k + piece) as usize].copy_from_slice(&value[..piece as usize]);
                }
                Ok(())
            };
            if let Err(trouble) = read() {
                return self.trouble(w, lane, from, trouble);
            }
            self.global_bytes += u64::from(bytes);
            let (late, space) = (self.late, copy.to.space);
            let mut land = || -> Result<u64, Trouble> {
                let spot = self.arenas.locate(space, to, copy.bytes.into(), w, lane, true).map_err(wrong)?;
                let view = self.arenas.view(spot);
                for (k, word) in data.chunks_exact(4).take(copy.bytes as usize / 4).enumerate() {
                    let at = spot.at + 4 * k as u64;
                    in_flight(view.states(at, 4))?;
                    if !late {
                        view.store(at, 4, little(word));
                    }
                    view.set_states(at, 4, IN_FLIGHT);
                }
                note_write(&self.watch, &view, spot.at, copy.bytes, me, false, false)?;
                Ok(spot.at)
            };
            let at = match land() {
                Ok(at) => at,
                Err(trouble) => return self.trouble(w, lane, to, trouble),
            };
            let warp = &mut self.warps[w];
            let pending = PendingCopy { lane: lane as u32, group: warp.open[lane], to: at, bytes: copy.bytes, data, instruction: me.instruction };
            warp.pending.push(pending);
        }
        Ok(())
    }
    /// `cp.async.wait_group`: what a thread waited for is there, for that thread; others need a barrier besides.
    pub fn wait_async(&mut self, w: usize, newest: Option<u32>, active: u32) -> Outcome<()> {
        let open = self.warps[w].open;
        let pending = std::mem::take(&mut self.warps[w].pending);
        let mut rest = Vec::with_capacity(pending.len());
        for copy in pending {
            let lane = copy.lane as usize;
            let done = active >> lane & 1 == 1
                && match newest {
                    None => true,
                    Some(newest) => copy.group + newest < open[lane],
                };
            if !done {
                rest.push(copy);
                continue;
            }
            let me = Party { instruction: copy.instruction, ..self.party(w, lane) };
            let mut land = || -> Result<(), Trouble> {
                let spot = self.arenas.locate(StateSpace::Shared, copy.to, copy.bytes.into(), w, lane, true).map_err(wrong)?;
                let view = self.arenas.view(spot);
                for (k, word) in copy.data.chunks_exact(4).take(copy.bytes as usize / 4).enumerate() {
                    view.store(spot.at + 4 * k as u64, 4, little(word));
                    view.set_states(spot.at + 4 * k as u64, 4, WRITTEN);
                }
                note_write(&self.watch, &view, spot.at, copy.bytes, me, false, false)
            };
            if let Err(trouble) = land() {
                return self.trouble(w, lane, copy.to, trouble);
            }
        }
        self.warps[w].pending = rest;
        Ok(())
    }
}

/// Nobody may write where an asynchronous copy is under way to.
fn in_flight(states: u64) -> Result<(), Trouble> {
    if states & (u64::from(IN_FLIGHT) * 0x0101_0101_0101_0101) != 0 { Err((FindingKind::CopyNotAwaited, None, "")) } else { Ok(()) }
}
/// A word of bytes, the lowest first.
fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
