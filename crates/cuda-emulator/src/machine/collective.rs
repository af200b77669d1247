//! What the lanes of a warp do together: synchronise, shuffle, vote, match, reduce.
use super::{
    block::{Flow, Outcome, RunningBlock},
    finding::FindingKind,
    registers::{LANES, Registers, lanes},
    step::{Collective, MachineStep, WarpAct},
    warp::Group,
};

impl RunningBlock<'_> {
    pub fn collective(&mut self, w: usize, c: &Collective) -> Outcome<Flow> {
        let warp = &self.warps[w];
        let here = warp.mask;
        let masks = warp.registers.words(c.mask);
        let first = here.trailing_zeros() as usize & 31;
        let wanted = masks[first];
        // Lanes with another mask are another party.
        let same = lanes(here).filter(|lane| masks[*lane] == wanted).fold(0, |m, lane| m | 1 << lane);
        if let Some(lane) = lanes(same).find(|lane| wanted >> lane & 1 == 0) {
            return self.fault(FindingKind::MissingLane, w, lane, format!("its mask {wanted:#010x} does not name it"));
        }
        if same != here {
            let pc = self.warps[w].pc;
            self.warps[w].split(here & !same, pc);
            // They wait until this party has gone on.
            if let Some(group) = self.warps[w].others.last_mut() {
                group.parked = true;
            }
        }
        let ready = match self.gather(w, wanted) {
            Err(fault) if c.what == WarpAct::Sync => return if self.sync_elsewhere(w, wanted) { Ok(Flow::Elsewhere) } else { Err(fault) },
            ready => ready?,
        };
        if !ready {
            return Ok(Flow::Elsewhere);
        }
        let warp = &mut self.warps[w];
        let mask = warp.mask;
        if let Err((lane, note)) = act(&mut warp.registers, c, mask) {
            return self.fault(FindingKind::MissingLane, w, lane, note);
        }
        let (all, now) = (mask & warp.live == warp.live, mask);
        self.watch.sync_lanes(w, now, all);
        let warp = &mut self.warps[w];
        if same != here {
            for group in warp.others.iter_mut().filter(|g| g.pc == warp.pc) {
                group.parked = false;
            }
            warp.pc += 1;
            warp.regroup();
            return Ok(Flow::Elsewhere);
        }
        Ok(Flow::Next)
    }
    /// `bar.warp.sync` may stand in several places: all who wait at one with the same mask meet.
    fn sync_elsewhere(&mut self, w: usize, wanted: u32) -> bool {
        let warp = &self.warps[w];
        let waits = |pc: u32, mask: u32| match self.program.instructions.get(pc as usize).map(|i| &i.step) {
            Some(MachineStep::Collective(c)) if c.what == WarpAct::Sync => lanes(mask).all(|lane| warp.registers.words(c.mask)[lane] == wanted),
            _ => false,
        };
        let there: Vec<Group> = warp.others.iter().copied().filter(|g| waits(g.pc, g.mask)).collect();
        let met = there.iter().fold(warp.mask, |m, g| m | g.mask);
        if wanted & warp.live & !met != 0 || wanted & warp.there & !warp.live != 0 {
            return false;
        }
        let all = met & warp.live == warp.live;
        let warp = &mut self.warps[w];
        for group in warp.others.iter_mut().filter(|g| there.contains(g)) {
            group.pc += 1;
            group.parked = false;
        }
        warp.pc += 1;
        warp.regroup();
        self.watch.sync_lanes(w, met, all);
        true
    }
}

/// Does it for the lanes of a mask, all of which are here.
fn act(r: &mut Registers, c: &Collective, mask: u32) -> Result<(), (usize, String)> {
    match c.what {
        WarpAct::Sync => Ok(()),
        WarpAct::Up | WarpAct::Down | WarpAct::Butterfly | WarpAct::Index => shuffle(r, c, mask),
        WarpAct::VoteAll | WarpAct::VoteAny | WarpAct::VoteUniform | WarpAct::Ballot => {
            let holds = (r.predicate(c.a) ^ if c.negated { u32::MAX } else { 0 }) & mask;
            let truth = |holds: bool| if holds { u32::MAX } else { 0 };
            match c.what {
                WarpAct::VoteAll => r.put_predicate(c.d, mask, truth(holds == mask)),
                WarpAct::VoteAny => r.put_predicate(c.d, mask, truth(holds != 0)),
                WarpAct::VoteUniform => r.put_predicate(c.d, mask, truth(holds == mask || holds == 0)),
                _ => r.put(c.d, mask, &[holds; LANES]),
            }
            Ok(())
        }
        WarpAct::MatchAny | WarpAct::MatchAll => {
            let values: [u64; LANES] = if c.a_wide { *r.wide(c.a) } else { r.words(c.a).map(u64::from) };
            let same = |lane: usize| lanes(mask).filter(|k| values[*k] == values[lane]).fold(0u32, |m, k| m | 1 << k);
            let mut d = [0; LANES];
            lanes(mask).for_each(|lane| d[lane] = same(lane));
            if c.what == WarpAct::MatchAll {
                let all = lanes(mask).all(|lane| d[lane] == mask);
                d = [if all { mask } else { 0 }; LANES];
                if let Some(p) = c.p {
                    r.put_predicate(p, mask, if all { u32::MAX } else { 0 });
                }
            }
            r.put(c.d, mask, &d);
            Ok(())
        }
        _ => {
            let a = *r.words(c.a);
            let mut values = lanes(mask).map(|lane| a[lane]);
            let first = values.next().unwrap_or(0);
            let signed = |f: fn(i32, i32) -> i32| move |x: u32, y: u32| f(x as i32, y as i32) as u32;
            let result = match (c.what, c.signed) {
                (WarpAct::ReduceAdd, _) => values.fold(first, u32::wrapping_add),
                (WarpAct::ReduceMin, true) => values.fold(first, signed(i32::min)),
                (WarpAct::ReduceMax, true) => values.fold(first, signed(i32::max)),
                (WarpAct::ReduceMin, false) => values.fold(first, u32::min),
                (WarpAct::ReduceMax, false) => values.fold(first, u32::max),
                (WarpAct::ReduceAnd, _) => values.fold(first, |x, y| x & y),
                (WarpAct::ReduceOr, _) => values.fold(first, |x, y| x | y),
                _ => values.fold(first, |x, y| x ^ y),
            };
            r.put(c.d, mask, &[result; LANES]);
            Ok(())
        }
    }
}

/// `shfl.sync`, as the pseudo-code of the PTX ISA has it.
fn shuffle(r: &mut Registers, c: &Collective, mask: u32) -> Result<(), (usize, String)> {
    let (a, b, clamp) = (*r.words(c.a), *r.words(c.b), *r.words(c.c));
    let (mut d, mut within) = (a, 0u32);
    for lane in lanes(mask) {
        let (offset, clamp, segment) = (b[lane] & 31, clamp[lane] & 31, clamp[lane] >> 8 & 31);
        let me = lane as u32;
        let most = me & segment | clamp & !segment;
        let least = me & segment;
        let (from, holds) = match c.what {
            WarpAct::Up => {
                let from = me as i32 - offset as i32;
                (from, from >= most as i32)
            }
            WarpAct::Down => ((me + offset) as i32, me + offset <= most),
            WarpAct::Butterfly => ((me ^ offset) as i32, me ^ offset <= most),
            _ => {
                let from = least | offset & !segment;
                (from as i32, from <= most)
            }
        };
        let from = if holds { from as usize & 31 } else { lane };
        if mask >> from & 1 == 0 {
            return Err((lane, format!("it reads lane {from}, which is not there")));
        }
        d[lane] = a[from];
        within |= u32::from(holds) << lane;
    }
    r.put(c.d, mask, &d);
    if let Some(p) = c.p {
        r.put_predicate(p, mask, within);
    }
    Ok(())
}
