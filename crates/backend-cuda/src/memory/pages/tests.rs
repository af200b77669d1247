//! The pool against a list of what is mapped and handed out, over drawn sequences; and what a training of drawn lengths leaves
//! stranded.
use super::*;
use lengths::{Lengths, step, weights};

#[path = "../../../tests/common/lengths.rs"]
mod lengths;

/// Pages as numbers; what is mapped where.
#[derive(Default)]
struct Listed {
    limit: Option<u64>,
    made: u64,
    alive: BTreeSet<u64>,
    at: BTreeMap<u64, u64>,
    moved: u64,
    next: u64,
    /// by address, the last turn that uses it
    used: BTreeMap<u64, u64>,
    passed: u64,
}
impl PageSource for Listed {
    type Page = u64;
    type Error = &'static str;
    fn reserve(&mut self, bytes: u64) -> Result<u64, &'static str> {
        // Right behind one another: stretches of two reservations must not become one.
        let start = 64 * PAGE + self.next;
        self.next += bytes;
        Ok(start)
    }
    fn create(&mut self) -> Result<u64, &'static str> {
        if self.limit.is_some_and(|limit| self.alive.len() as u64 >= limit) {
            return Err("no page");
        }
        self.made += 1;
        self.alive.insert(self.made);
        Ok(self.made)
    }
    fn release(&mut self, page: u64) {
        assert!(self.alive.remove(&page) && !self.at.values().any(|p| *p == page), "page {page} is released while mapped");
    }
    fn map(&mut self, address: u64, pages: &[u64]) -> Result<(), &'static str> {
        for (k, page) in pages.iter().enumerate() {
            assert!(self.alive.contains(page) && !self.at.values().any(|p| p == page), "page {page} is mapped twice");
            assert!(self.at.insert(address + k as u64 * PAGE, *page).is_none(), "two pages at one address");
        }
        Ok(())
    }
    fn unmap(&mut self, address: u64, pages: u64) -> Result<(), &'static str> {
        for k in 0..pages {
            let at = address + k * PAGE;
            assert!(self.at.remove(&at).is_some(), "nothing is mapped at {address:#x}");
            assert!(self.used.remove(&at).is_none_or(|turn| turn <= self.passed), "a page is moved that work uses");
            self.moved += 1;
        }
        Ok(())
    }
}
/// A pool whose host waits: blocks with their turns.
struct Waiting {
    pool: PagePool<Listed>,
    turn: u64,
    passed: u64,
    waits: u64,
    most: u64,
    /// the most that was reserved
    reserved: u64,
}
impl Waiting {
    fn new(most: u64) -> Waiting {
        Waiting { pool: PagePool::new(Listed::default(), 1 << 36), turn: 0, passed: 0, waits: 0, most, reserved: 0 }
    }
    fn take(&mut self, bytes: u64) -> Option<PageBlock> {
        loop {
            self.pool.source.passed = self.passed;
            match self.pool.take(bytes, LastTurns([self.passed, 0, 0]), self.most) {
                Ok(block) => {
                    let end = block.start + block.bytes;
                    let mut at = block.start / PAGE * PAGE;
                    while at < end {
                        assert!(self.pool.source.at.contains_key(&at), "a block without a page");
                        at += PAGE;
                    }
                    self.reserved = self.reserved.max(self.pool.reserved());
                    return Some(block);
                }
                Err(NoBlock::Busy(until)) => {
                    assert!(until.0[0] > self.passed, "it waits for what has passed");
                    self.passed = until.0[0];
                    self.waits += 1;
                }
                Err(_) => return None,
            }
        }
    }
    fn give(&mut self, block: PageBlock) {
        for page in block.start / PAGE..(block.start + block.bytes).div_ceil(PAGE) {
            self.pool.source.used.insert(page * PAGE, self.turn);
        }
        self.pool.give(block.start, block.bytes, LastTurns([self.turn, 0, 0]));
    }
}
impl Drop for Waiting {
    fn drop(&mut self) {
        self.pool.source.passed = u64::MAX;
    }
}
#[test]
fn no_block_is_handed_out_twice_and_none_lacks_a_page() {
    for seed in 0..40 {
        let mut drawn = Lengths(seed);
        let mut host = Waiting::new((8 + drawn.below(64)) * PAGE);
        host.pool.source.limit = (seed % 3 == 0).then_some(20);
        let mut held: Vec<PageBlock> = Vec::new();
        for _ in 0..600 {
            host.turn += 1;
            if drawn.below(3) == 0 {
                host.passed = host.turn - drawn.below(4).min(host.turn);
            }
            if drawn.below(5) < 3 {
                let scale = 1 << drawn.below(24);
                let bytes = 1 + drawn.below(scale);
                if let Some(block) = host.take(bytes) {
                    assert!(block.bytes >= bytes && block.bytes < bytes + GRAIN && block.start.is_multiple_of(GRAIN));
                    assert!(held.iter().all(|b| block.start >= b.start + b.bytes || b.start >= block.start + block.bytes), "seed {seed}: two blocks meet");
                    held.push(block);
                }
            } else if !held.is_empty() {
                let at = drawn.below(held.len() as u64) as usize;
                host.give(held.swap_remove(at));
            }
            let pool = &host.pool;
            assert_eq!(pool.handed_out(), held.iter().map(|b| b.bytes).sum::<u64>());
            assert!(pool.reserved() <= host.most && pool.reserved() >= pool.handed_out());
            assert_eq!((pool.reserved() / PAGE, pool.source.at.len()), (pool.source.alive.len() as u64, pool.source.alive.len()));
        }
        held.drain(..).for_each(|b| host.give(b));
        let reserved = host.pool.reserved();
        host.pool.source.passed = host.turn;
        assert_eq!(host.pool.trim(LastTurns([host.turn; 3])), reserved, "seed {seed}");
        assert!(host.pool.reserved() == 0 && host.pool.source.alive.is_empty(), "seed {seed}: pages are left");
    }
}
#[test]
fn a_training_of_drawn_lengths_strands_nothing() {
    for ahead in [0, 1, 2] {
        let mut host = Waiting::new(u64::MAX);
        let mut drawn = Lengths(7);
        let weights: Vec<PageBlock> = weights().into_iter().map(|bytes| host.take(bytes).unwrap()).collect();
        let (mut worst, mut late) = (0.0f64, 0);
        for k in 0..2000 {
            let host = std::cell::RefCell::new(&mut host);
            let blocks = std::cell::RefCell::new(Vec::new());
            let waits = host.borrow().waits;
            {
                let mut host = host.borrow_mut();
                host.turn += 1;
                host.passed = host.passed.max(host.turn.saturating_sub(1 + ahead));
            }
            let take = |bytes| {
                blocks.borrow_mut().push(host.borrow_mut().take(bytes).unwrap());
                blocks.borrow().len() - 1
            };
            let give = |at: usize| host.borrow_mut().give(blocks.borrow()[at]);
            step(drawn.tokens(), take, give);
            let host = host.borrow();
            worst = host.reserved as f64 / host.pool.peak as f64;
            late += u64::from(k >= 100 && host.waits > waits);
        }
        println!(
            "{ahead} steps ahead: reserved {} MiB, {worst:.3} of the peak; {} pages moved, {late} of the last 1,900 steps waited",
            host.reserved >> 20,
            host.pool.source.moved
        );
        assert!(worst <= 1.15, "{worst}");
        weights.into_iter().for_each(|b| host.give(b));
    }
}
