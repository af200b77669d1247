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
    led: u64,
    next: u64,
    /// the last turns that use an address, and that use a page
    used: BTreeMap<u64, u64>,
    used_pages: BTreeMap<u64, u64>,
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
            assert!(self.alive.contains(page), "page {page} is mapped when it is gone");
            let others = self.at.iter().filter(|(_, p)| *p == page);
            self.led += others.map(|(at, _)| assert!(self.used.get(at).is_some_and(|turn| *turn > self.passed), "page {page} is mapped twice")).count() as u64;
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
/// A pool, and what the host knows of its device: the turn that it hands over, and the last that has passed.
struct PagesInUse {
    pool: PagePool<Listed>,
    turn: u64,
    passed: u64,
    most: u64,
    /// the most that was reserved
    reserved: u64,
}
impl PagesInUse {
    fn new(most: u64) -> PagesInUse {
        PagesInUse { pool: PagePool::new(Listed::default(), 1 << 36), turn: 0, passed: 0, most, reserved: 0 }
    }
    fn take(&mut self, bytes: u64) -> Option<PageBlock> {
        self.pool.source.passed = self.passed;
        let block = self.pool.take(bytes, LastTurns([self.passed, 0, 0]), self.most).ok()?;
        let source = &self.pool.source;
        for (page, _) in pieces(source, &block) {
            let used = source.used_pages.get(&page).copied().unwrap_or(0);
            assert!(used <= self.passed.max(block.behind.0[0]), "page {page} is handed out before turn {used}");
        }
        self.reserved = self.reserved.max(self.pool.reserved());
        Some(block)
    }
    fn give(&mut self, block: PageBlock) {
        for (page, Range { start, .. }) in pieces(&self.pool.source, &block) {
            self.pool.source.used.insert(start / PAGE * PAGE, self.turn);
            self.pool.source.used_pages.insert(page, self.turn);
        }
        self.pool.give(block.start, block.bytes, LastTurns([self.turn, 0, 0]));
    }
}
impl Drop for PagesInUse {
    fn drop(&mut self) {
        self.pool.source.passed = u64::MAX;
    }
}
/// The pages of a block, each with its addresses.
fn pieces(source: &Listed, block: &PageBlock) -> Vec<(u64, Range<u64>)> {
    let (start, end) = (block.start, block.start + block.bytes);
    let within = |at: u64| (source.at[&at], at.max(start)..(at + PAGE).min(end));
    (start / PAGE..end.div_ceil(PAGE)).map(|page| within(page * PAGE)).collect()
}
/// Do two blocks meet in a page, by whatever addresses?
fn meet(source: &Listed, a: &PageBlock, b: &PageBlock) -> bool {
    let within = |r: &Range<u64>| (r.start % PAGE, r.end - r.start / PAGE * PAGE);
    let meet = |(p, r): &(u64, Range<u64>), (q, s): &(u64, Range<u64>)| p == q && within(r).0 < within(s).1 && within(s).0 < within(r).1;
    let of_b = pieces(source, b);
    pieces(source, a).iter().any(|x| of_b.iter().any(|y| meet(x, y)))
}
#[test]
fn no_block_is_handed_out_twice_and_none_lacks_a_page() {
    let mut led = 0;
    for seed in 0..40 {
        let mut drawn = Lengths(seed);
        let mut host = PagesInUse::new((8 + drawn.below(64)) * PAGE);
        host.pool.source.limit = (seed % 3 == 0).then_some(20);
        let mut held: Vec<PageBlock> = Vec::new();
        for _ in 0..600 {
            host.turn += 1;
            if drawn.below(12) == 0 {
                host.passed = host.passed.max(host.turn - drawn.below(40).min(host.turn));
            }
            if drawn.below(5) < 3 {
                let scale = 1 << drawn.below(24);
                let bytes = 1 + drawn.below(scale);
                if let Some(block) = host.take(bytes) {
                    assert!(block.bytes >= bytes && block.bytes < bytes + GRAIN && block.start.is_multiple_of(GRAIN));
                    assert!(!held.iter().any(|b| meet(&host.pool.source, b, &block)), "seed {seed}: two blocks meet");
                    held.push(block);
                }
            } else if !held.is_empty() {
                let at = drawn.below(held.len() as u64) as usize;
                host.give(held.swap_remove(at));
            }
            let pool = &host.pool;
            assert_eq!(pool.handed_out(), held.iter().map(|b| b.bytes).sum::<u64>());
            assert!(pool.reserved() <= host.most && pool.reserved() >= pool.handed_out());
            assert_eq!((pool.reserved() / PAGE, pool.source.at.len()), (pool.source.alive.len() as u64, pool.source.alive.len() + pool.left.len()));
        }
        held.drain(..).for_each(|b| host.give(b));
        let reserved = host.pool.reserved();
        host.pool.source.passed = host.turn;
        assert_eq!(host.pool.trim(LastTurns([host.turn; 3])), reserved, "seed {seed}");
        assert!(host.pool.reserved() == 0 && host.pool.source.alive.is_empty(), "seed {seed}: pages are left");
        led += host.pool.source.led;
    }
    assert!(led > 100, "{led} pages in use were mapped anew");
}
#[test]
fn a_training_of_drawn_lengths_strands_nothing() {
    for ahead in [0, 1, 2] {
        let mut host = PagesInUse::new(u64::MAX);
        let mut drawn = Lengths(7);
        let weights: Vec<PageBlock> = weights().into_iter().map(|bytes| host.take(bytes).unwrap()).collect();
        let mut worst = 0.0f64;
        for _ in 0..2000 {
            let host = std::cell::RefCell::new(&mut host);
            let blocks = std::cell::RefCell::new(Vec::new());
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
        }
        println!(
            "{ahead} steps ahead: reserved {} MiB, {worst:.3} of the peak; {} pages moved, {} while they were in use",
            host.reserved >> 20,
            host.pool.source.moved,
            host.pool.source.led
        );
        assert!(worst <= 1.15, "{worst}");
        weights.into_iter().for_each(|b| host.give(b));
    }
}
