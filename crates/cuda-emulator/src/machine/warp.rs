//! A warp: its registers, and where its lanes are. Lanes at the same instruction go together; of several groups the one at the
//! lowest instruction goes first, so that lanes that parted meet again where their ways do. A group that waits for others
//! is parked.
use super::registers::Registers;

/// Regroupings with the same group in front after which another one has its turn: it may hold what the first waits for.
const PATIENCE: u32 = 256;
/// Regroupings that such a turn lasts.
const TURN: u32 = 128;

/// Lanes that are at the same instruction and not the ones that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    pub pc: u32,
    pub mask: u32,
    pub parked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarpState {
    Ready,
    AtBarrier(usize),
    Done,
}

/// An asynchronous copy that its thread has not waited for.
#[derive(Debug, Clone, Copy)]
pub struct PendingCopy {
    pub lane: u32,
    pub group: u32,
    pub to: u64,
    pub bytes: u32,
    pub data: [u8; 16],
    pub instruction: u32,
}

/// A warp of a block.
pub struct Warp {
    pub registers: Registers,
    /// The instruction and the lanes that run.
    pub pc: u32,
    pub mask: u32,
    pub others: Vec<Group>,
    /// At this instruction others wait.
    pub limit: u32,
    /// Lanes that have not left.
    pub live: u32,
    /// Lanes that were there at the start.
    pub there: u32,
    pub state: WarpState,
    /// What to write when the barrier is passed: the row or predicate of its count.
    pub counts: super::step::BarrierCount,
    pub pending: Vec<PendingCopy>,
    /// Of each lane, the number of its open group of copies.
    pub open: [u32; 32],
    turns: u32,
    turn: u32,
}

impl Warp {
    pub fn new(rows: usize, predicates: usize) -> Warp {
        Warp {
            registers: Registers::new(rows, predicates),
            pc: 0,
            mask: 0,
            others: Vec::new(),
            limit: u32::MAX,
            live: 0,
            there: 0,
            state: WarpState::Done,
            counts: super::step::BarrierCount::None,
            pending: Vec::new(),
            open: [0; 32],
            turns: 0,
            turn: 0,
        }
    }
    /// At a kernel's start.
    pub fn begin(&mut self, entry: u32, lanes: u32) {
        self.registers.clear_from(0);
        (self.pc, self.mask, self.live, self.there) = (entry, lanes, lanes, lanes);
        self.others.clear();
        self.limit = u32::MAX;
        self.state = WarpState::Ready;
        self.pending.clear();
        self.open = [0; 32];
        (self.turns, self.turn) = (0, 0);
    }
    /// Some lanes go elsewhere; the rest stay the ones that run.
    pub fn split(&mut self, mask: u32, pc: u32) {
        self.mask &= !mask;
        self.others.push(Group { pc, mask, parked: false });
    }
    /// Puts together who is at the same place, and chooses who runs.
    pub fn regroup(&mut self) {
        if self.others.is_empty() {
            self.limit = u32::MAX;
            self.turns = 0;
            return;
        }
        self.turns += 1;
        self.turn = self.turn.saturating_sub(1);
        if self.turns >= PATIENCE {
            self.turns = 0;
            if let Some(at) = self.extreme(true) {
                self.turn = TURN;
                self.change_to(at);
            }
        } else if self.turn == 0
            && let Some(at) = self.extreme(false)
            && self.others[at].pc < self.pc
        {
            self.change_to(at);
        }
        let (pc, mut mask) = (self.pc, self.mask);
        self.others.retain(|g| {
            let here = g.pc == pc;
            mask |= if here { g.mask } else { 0 };
            !here
        });
        self.mask = mask;
        self.limit = self.others.iter().map(|g| g.pc).filter(|at| *at > pc).min().unwrap_or(u32::MAX);
    }
    /// The group that is not parked at the lowest or highest instruction.
    fn extreme(&self, highest: bool) -> Option<usize> {
        let able = self.others.iter().enumerate().filter(|(_, g)| !g.parked);
        let found = if highest { able.max_by_key(|(_, g)| g.pc) } else { able.min_by_key(|(_, g)| g.pc) };
        found.map(|(at, _)| at)
    }
    fn change_to(&mut self, at: usize) {
        let group = self.others.swap_remove(at);
        if self.mask != 0 {
            self.others.push(Group { pc: self.pc, mask: self.mask, parked: false });
        }
        (self.pc, self.mask) = (group.pc, group.mask);
    }
    /// The lanes that run wait here for others; whether there are any that can run.
    pub fn park(&mut self) -> bool {
        let Some(at) = self.extreme(false) else { return false };
        let mine = Group { pc: self.pc, mask: self.mask, parked: true };
        self.mask = 0;
        self.turn = 0;
        self.change_to(at);
        self.others.push(mine);
        self.regroup();
        true
    }
    /// The lanes that run leave; whether others of them can run now.
    pub fn leave(&mut self, mask: u32) -> bool {
        self.live &= !mask;
        self.mask &= !mask;
        if self.mask != 0 {
            return true;
        }
        self.turn = 0;
        // Who waited for those that left must look again.
        for group in &mut self.others {
            group.parked = false;
        }
        match self.extreme(false) {
            Some(at) => {
                self.change_to(at);
                self.regroup();
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_that_part_meet_again() {
        let mut warp = Warp::new(1, 0);
        warp.begin(10, u32::MAX);
        warp.split(0xff, 20);
        warp.regroup();
        assert_eq!((warp.pc, warp.mask, warp.limit), (10, 0xffff_ff00, 20));
        warp.pc = 30;
        warp.regroup();
        assert_eq!((warp.pc, warp.mask, warp.limit), (20, 0xff, 30));
        warp.pc = 30;
        warp.regroup();
        assert_eq!((warp.pc, warp.mask, warp.others.len()), (30, u32::MAX, 0));
    }
    #[test]
    fn a_group_that_waits_lets_others_go_and_is_taken_up() {
        let mut warp = Warp::new(1, 0);
        warp.begin(5, 0b11);
        warp.split(0b10, 9);
        assert!(warp.park(), "lane 1 can go");
        assert_eq!((warp.pc, warp.mask), (9, 0b10));
        warp.pc = 5;
        warp.regroup();
        assert_eq!((warp.pc, warp.mask), (5, 0b11));
        assert!(!warp.park(), "nobody can go");
        assert!(!warp.leave(0b11));
        assert_eq!(warp.live, 0);
    }
    #[test]
    fn who_spins_in_front_lets_the_holder_go() {
        let mut warp = Warp::new(1, 0);
        warp.begin(5, 0b11);
        warp.split(0b10, 9);
        let held = (0..PATIENCE + 1).any(|_| {
            warp.regroup();
            warp.mask == 0b10
        });
        assert!(held);
    }
}
