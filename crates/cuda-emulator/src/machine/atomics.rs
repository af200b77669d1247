//! Atomic instructions, lane by lane in order.
use super::{
    access::{Trouble, note_write, wrong},
    block::{Outcome, RunningBlock},
    finding::FindingKind,
    floats::canonical,
    halves::{Half, half_max, half_min},
    registers::lanes,
    step::{AtomicStep, Update},
};
use crate::{
    memory::{WRITTEN, ZeroedBytes},
    ptx::PtxType,
};
use half::{bf16, f16};
use std::sync::atomic::Ordering::Relaxed;

impl RunningBlock<'_> {
    pub fn atomic(&mut self, w: usize, atomic: &AtomicStep, active: u32) -> Outcome<()> {
        let bytes = atomic.of.bytes() as u32;
        let wide = bytes == 8;
        for lane in lanes(active) {
            let address = self.address(w, &atomic.place, lane);
            let r = &self.warps[w].registers;
            let read = |row: u32| if wide { r.wide(row)[lane] } else { u64::from(r.words(row)[lane]) };
            let (b, c) = (read(atomic.b), read(atomic.c));
            let me = self.party(w, lane);
            let mut act = || -> Result<(u64, bool), Trouble> {
                let spot = self.arenas.locate(atomic.place.space, address, bytes.into(), w, lane, true).map_err(wrong)?;
                let view = self.arenas.view(spot);
                if atomic.update != Update::Exchange || atomic.d.is_some() {
                    view.readable(spot.at, bytes).map_err(wrong)?;
                }
                if view.notes.is_none() && !view.global {
                    return Err((FindingKind::OutOfBounds, None, "an atomic on memory that is no other thread's"));
                }
                note_write(&self.watch, &view, spot.at, bytes, me, true, false)?;
                if view.global {
                    self.watch.publish(w, address, atomic.strength.release);
                }
                let old = update(view.data, spot.at, bytes, |old| new(atomic.update, atomic.of, old, b, c));
                view.set_states(spot.at, bytes, WRITTEN);
                if view.global {
                    self.watch.acquire(address);
                }
                Ok((old, view.global))
            };
            let (old, global) = match act() {
                Ok(done) => done,
                Err(trouble) => return self.trouble(w, lane, address, trouble),
            };
            self.global_bytes += if global { 2 * u64::from(bytes) } else { 0 };
            if let Some(d) = atomic.d {
                let r = &mut self.warps[w].registers;
                if wide {
                    r.wide_mut(d)[lane] = old;
                } else {
                    r.words_mut(d)[lane] = old as u32;
                }
            }
        }
        Ok(())
    }
}

/// Replaces what is stored in one go, and gives what was there.
fn update(data: &ZeroedBytes, at: u64, bytes: u32, f: impl Fn(u64) -> u64) -> u64 {
    macro_rules! replace {
        ($word:ident, $t:ty) => {
            match data.$word(at).fetch_update(Relaxed, Relaxed, |old| Some(f(u64::from(old)) as $t)) {
                Ok(old) | Err(old) => u64::from(old),
            }
        };
    }
    match bytes {
        2 => replace!(word16, u16),
        4 => replace!(word32, u32),
        _ => replace!(word64, u64),
    }
}

/// What stands there afterwards.
fn new(update: Update, of: PtxType, old: u64, b: u64, c: u64) -> u64 {
    let (x, y) = (old as u32, b as u32);
    match (update, of) {
        (Update::Exchange, _) => b,
        (Update::Compare, PtxType::B16) => {
            if old & 0xffff == b & 0xffff {
                c
            } else {
                old
            }
        }
        (Update::Compare, PtxType::B32) => {
            if x == y {
                c
            } else {
                old
            }
        }
        (Update::Compare, _) => {
            if old == b {
                c
            } else {
                old
            }
        }
        (Update::And, _) => old & b,
        (Update::Or, _) => old | b,
        (Update::Xor, _) => old ^ b,
        (Update::Increment, _) => u64::from(if x >= y { 0 } else { x + 1 }),
        (Update::Decrement, _) => u64::from(if x == 0 || x > y { y } else { x - 1 }),
        (_, PtxType::F16) => u64::from(half_update::<f16>(update, x as u16, y as u16)),
        (_, PtxType::Bf16) => u64::from(half_update::<bf16>(update, x as u16, y as u16)),
        (_, PtxType::F16x2) => pairs::<f16>(update, x, y),
        (_, PtxType::Bf16x2) => pairs::<bf16>(update, x, y),
        (Update::Add, PtxType::F32) => u64::from(canonical(f32::from_bits(x) + f32::from_bits(y)).to_bits()),
        (Update::Add, PtxType::F64) => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        (Update::Add, _) => old.wrapping_add(b),
        (Update::Min, PtxType::S32) => u64::from((x as i32).min(y as i32) as u32),
        (Update::Max, PtxType::S32) => u64::from((x as i32).max(y as i32) as u32),
        (Update::Min, PtxType::S64) => (old as i64).min(b as i64) as u64,
        (Update::Max, PtxType::S64) => (old as i64).max(b as i64) as u64,
        (Update::Min, _) => old.min(b),
        (Update::Max, _) => old.max(b),
    }
}

fn half_update<H: Half>(update: Update, x: u16, y: u16) -> u16 {
    let (x, y) = (H::of(x), H::of(y));
    match update {
        Update::Min => half_min(x, y).bits(),
        Update::Max => half_max(x, y).bits(),
        _ => H::narrow(x.wide() + y.wide()).bits(),
    }
}
fn pairs<H: Half>(update: Update, x: u32, y: u32) -> u64 {
    let part = |shift: u32| u64::from(half_update::<H>(update, (x >> shift) as u16, (y >> shift) as u16)) << shift;
    part(0) | part(16)
}
