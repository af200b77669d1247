//! Addresses and the pages that are mapped to them. Blocks lie side by side in mapped addresses; where no free stretch is long
//! enough, the whole pages of free stretches elsewhere are unmapped and mapped again behind one another: what is free in pieces is
//! never stranded. Only what that does not give is asked of the driver.
//!
//! Work that was handed over goes on when its memory is given up, and nobody waits for it here. Each page knows the last turns that may
//! use it; a block is handed out at once, with the turns behind which it may be touched. A page that is in use is mapped at a second
//! address beside the first, where work finds it still ("Virtual Aliasing Support" of the CUDA C++ Programming Guide: what one operation
//! of the device wrote, a later one reads by either address); the first ends when its last turns have passed.
//!
//! Must not know: the driver, streams.
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

/// Bytes of a page.
pub(crate) const PAGE: u64 = 2 << 20;
/// Blocks are multiples of it, and begin at multiples of it.
const GRAIN: u64 = 512;
/// Blocks below it have addresses of their own: one of them holds a whole page.
const SMALL: u64 = 1 << 20;
/// Beyond what is handed out at most, this share of it may be had before pages that are in use are taken: a 16th.
const SLACK: u64 = 16;

/// The last turns, by queue, that may use memory. None: 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct LastTurns(pub [u64; 3]);
impl LastTurns {
    /// The later ones of both.
    pub fn with(self, other: LastTurns) -> LastTurns {
        LastTurns(std::array::from_fn(|k| self.0[k].max(other.0[k])))
    }
    /// Are there none behind these?
    pub fn are_within(self, passed: LastTurns) -> bool {
        self.0.iter().zip(passed.0).all(|(last, passed)| *last <= passed)
    }
}
/// Who has pages and addresses.
pub(crate) trait PageSource {
    /// A page.
    type Page: Copy;
    /// Why not.
    type Error;
    /// Addresses without pages.
    fn reserve(&mut self, bytes: u64) -> Result<u64, Self::Error>;
    /// A page without an address.
    fn create(&mut self) -> Result<Self::Page, Self::Error>;
    fn release(&mut self, page: Self::Page);
    /// Maps pages behind one another.
    fn map(&mut self, address: u64, pages: &[Self::Page]) -> Result<(), Self::Error>;
    fn unmap(&mut self, address: u64, pages: u64) -> Result<(), Self::Error>;
}
/// A block of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageBlock {
    pub start: u64,
    pub bytes: u64,
    /// the turns behind which it may be touched
    pub behind: LastTurns,
}
/// Why there is no block.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum NoBlock<E> {
    /// Not within the cap.
    Capped,
    /// The source said so.
    Source(E),
}
/// A page where it is mapped.
#[derive(Clone, Copy)]
struct Mapped<P> {
    page: P,
    last: LastTurns,
}
/// Whole pages of free stretches, by region and address.
#[derive(Default)]
struct MovablePages {
    at_rest: Vec<(usize, u64)>,
    /// with their last turns
    in_use: Vec<(LastTurns, usize, u64)>,
}
/// An address whose page is mapped at another too, and which work may use still.
struct LeftAddress {
    region: usize,
    at: u64,
    last: LastTurns,
}
/// Stretches of addresses: none touches another.
#[derive(Default)]
struct Stretches {
    bytes_at: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}
impl Stretches {
    fn put(&mut self, mut start: u64, mut bytes: u64) {
        if let Some((s, b)) = self.ending_at(start) {
            self.cut(s);
            (start, bytes) = (s, b + bytes);
        }
        if let Some(b) = self.bytes_at.get(&(start + bytes)).copied() {
            self.cut(start + bytes);
            bytes += b;
        }
        self.bytes_at.insert(start, bytes);
        self.by_size.insert((bytes, start));
    }
    fn cut(&mut self, start: u64) -> u64 {
        let bytes = self.bytes_at.remove(&start).unwrap_or(0);
        self.by_size.remove(&(bytes, start));
        bytes
    }
    /// Takes a part of a stretch out.
    fn take(&mut self, start: u64, bytes: u64) {
        let Some((s, whole)) = self.bytes_at.range(..=start).next_back().map(|(s, b)| (*s, *b)) else { return };
        self.cut(s);
        if s < start {
            self.put(s, start - s);
        }
        if start + bytes < s + whole {
            self.put(start + bytes, s + whole - start - bytes);
        }
    }
    fn ending_at(&self, end: u64) -> Option<(u64, u64)> {
        self.bytes_at.range(..end).next_back().filter(|(s, b)| *s + *b == end).map(|(s, b)| (*s, *b))
    }
    fn best(&self, bytes: u64) -> Option<u64> {
        self.by_size.range((bytes, 0)..).next().map(|(_, start)| *start)
    }
}
/// Addresses for blocks of one kind.
#[derive(Default)]
struct PageRegion {
    free: Stretches,
    /// without pages
    holes: Stretches,
}
/// Where pages are to be mapped.
#[derive(Clone, Copy)]
struct PageSite {
    /// where the pages go
    at: u64,
    pages: u64,
    /// where the block will begin
    start: u64,
}
/// Blocks in mapped pages.
pub(crate) struct PagePool<S: PageSource> {
    pub source: S,
    regions: [PageRegion; 2],
    mapped: BTreeMap<u64, Mapped<S::Page>>,
    left: Vec<LeftAddress>,
    /// bytes of addresses that are reserved at once
    stride: u64,
    handed_out: u64,
    /// the most that was handed out
    peak: u64,
}
impl<S: PageSource> PagePool<S> {
    /// With nothing yet; `stride`: bytes of addresses to reserve at once.
    pub fn new(source: S, stride: u64) -> PagePool<S> {
        let stride = stride.max(PAGE).next_multiple_of(PAGE);
        PagePool { source, regions: Default::default(), mapped: BTreeMap::new(), left: Vec::new(), stride, handed_out: 0, peak: 0 }
    }
    /// Bytes of all pages.
    pub fn reserved(&self) -> u64 {
        self.mapped.len() as u64 * PAGE
    }
    /// Bytes of blocks.
    pub fn handed_out(&self) -> u64 {
        self.handed_out
    }
    /// The most that was handed out is what is now.
    pub fn reset_peak(&mut self) {
        self.peak = self.handed_out;
    }
    /// A block from a free stretch, if one is long enough.
    pub fn take_free(&mut self, bytes: u64) -> Option<PageBlock> {
        let bytes = bytes.max(1).next_multiple_of(GRAIN);
        let start = self.regions[region_of(bytes)].free.best(bytes)?;
        Some(self.carve(start, bytes))
    }
    /// A block, with pages moved or new ones. `passed`: the turns that have; `most`: bytes of pages that there may be.
    ///
    /// # Errors
    /// [`NoBlock`]; nothing has changed.
    pub fn take(&mut self, bytes: u64, passed: LastTurns, most: u64) -> Result<PageBlock, NoBlock<S::Error>> {
        if let Some(block) = self.take_free(bytes) {
            return Ok(block);
        }
        self.end_left(passed).map_err(NoBlock::Source)?;
        let bytes = bytes.max(1).next_multiple_of(GRAIN);
        let which = region_of(bytes);
        let site = match self.site(which, bytes) {
            Some(site) => site,
            None => {
                let more = self.stride.max(bytes.next_multiple_of(PAGE) + PAGE);
                let start = self.source.reserve(more).map_err(NoBlock::Source)?;
                // Its last page stays a hole: what follows may be another reservation.
                self.regions[which].holes.put(start, more - PAGE);
                self.site(which, bytes).ok_or(NoBlock::Capped)?
            }
        };
        let kept = site.start..(site.start + bytes).max(site.at + site.pages * PAGE);
        let MovablePages { mut at_rest, mut in_use } = self.movable(Some((which, kept)), passed);
        at_rest.truncate(site.pages as usize);
        let missing = site.pages - at_rest.len() as u64;
        let wanted = self.peak.max(self.handed_out + bytes);
        let beyond = |limit: u64| (limit / PAGE).saturating_sub(self.mapped.len() as u64);
        let of_use = in_use.len() as u64;
        let new = beyond(wanted + wanted / SLACK + PAGE).max(missing.saturating_sub(of_use)).min(beyond(most)).min(missing);
        if missing - new > of_use {
            return Err(NoBlock::Capped);
        }
        let mut pages = Vec::new();
        while (pages.len() as u64) < new {
            match self.source.create() {
                Ok(page) => pages.push(Mapped { page, last: LastTurns::default() }),
                Err(_) if missing - pages.len() as u64 <= of_use => break,
                Err(e) => {
                    pages.drain(..).for_each(|new| self.source.release(new.page));
                    return Err(NoBlock::Source(e));
                }
            }
        }
        in_use.sort_unstable_by_key(|(last, ..)| last.0);
        in_use.truncate((missing - pages.len() as u64) as usize);
        for (region, at) in at_rest {
            pages.extend(self.taken_away(region, at).map_err(NoBlock::Source)?);
        }
        pages.extend(in_use.into_iter().filter_map(|(last, region, at)| self.led_away(region, at, last)));
        self.put_in(which, site, &pages).map_err(NoBlock::Source)?;
        Ok(self.carve(site.start, bytes))
    }
    /// Maps pages into a hole.
    fn put_in(&mut self, which: usize, site: PageSite, pages: &[Mapped<S::Page>]) -> Result<(), S::Error> {
        let alone: Vec<S::Page> = pages.iter().map(|mapped| mapped.page).collect();
        if let Err(e) = self.source.map(site.at, &alone) {
            alone.into_iter().for_each(|page| self.source.release(page));
            return Err(e);
        }
        let length = pages.len() as u64 * PAGE;
        self.regions[which].holes.take(site.at, length);
        self.mapped.extend(pages.iter().enumerate().map(|(k, page)| (site.at + k as u64 * PAGE, *page)));
        self.regions[which].free.put(site.at, length);
        Ok(())
    }
    /// Unmaps a free page; what used it has passed.
    fn taken_away(&mut self, region: usize, at: u64) -> Result<Option<Mapped<S::Page>>, S::Error> {
        if !self.mapped.contains_key(&at) {
            return Ok(None);
        }
        self.source.unmap(at, 1)?;
        let region = &mut self.regions[region];
        region.free.take(at, PAGE);
        region.holes.put(at, PAGE);
        Ok(self.mapped.remove(&at).map(|m| Mapped { last: LastTurns::default(), ..m }))
    }
    /// A free page that is to be mapped elsewhere too, and stays here until its last turns have passed.
    fn led_away(&mut self, region: usize, at: u64, last: LastTurns) -> Option<Mapped<S::Page>> {
        self.regions[region].free.take(at, PAGE);
        self.left.push(LeftAddress { region, at, last });
        self.mapped.remove(&at)
    }
    /// Unmaps what pages were led away from, where nothing uses it any more.
    fn end_left(&mut self, passed: LastTurns) -> Result<(), S::Error> {
        for LeftAddress { region, at, .. } in self.left.extract_if(.., |left| left.last.are_within(passed)) {
            self.source.unmap(at, 1)?;
            self.regions[region].holes.put(at, PAGE);
        }
        Ok(())
    }
    /// Where the fewest pages make a stretch of so many bytes: a hole, with what is free beside it.
    fn site(&self, which: usize, bytes: u64) -> Option<PageSite> {
        let PageRegion { free, holes } = &self.regions[which];
        let mut best: Option<(PageSite, u64)> = None;
        for (&hole, &length) in &holes.bytes_at {
            let lead = free.ending_at(hole).map_or(0, |(_, b)| b);
            let trail = free.bytes_at.get(&(hole + length)).copied().unwrap_or(0);
            let pages_for = |beside: u64| bytes.saturating_sub(beside).div_ceil(PAGE);
            let (at_begin, at_end) = (pages_for(lead), pages_for(trail));
            let site = if at_begin * PAGE <= length && (at_begin <= at_end || lead > 0) {
                PageSite { at: hole, pages: at_begin, start: hole - lead }
            } else if at_end * PAGE <= length {
                let at = hole + length - at_end * PAGE;
                PageSite { at, pages: at_end, start: at }
            } else if lead + length + trail >= bytes {
                PageSite { at: hole, pages: length / PAGE, start: hole - lead }
            } else {
                continue;
            };
            if best.is_none_or(|(b, l)| (site.pages, length) < (b.pages, l)) {
                best = Some((site, length));
            }
        }
        best.map(|(site, _)| site)
    }
    /// Whole pages of free stretches outside some addresses, of the shortest stretches first.
    fn movable(&self, kept: Option<(usize, Range<u64>)>, passed: LastTurns) -> MovablePages {
        let mut movable = MovablePages::default();
        for (region, r) in self.regions.iter().enumerate() {
            let is_kept = |at: u64| kept.as_ref().is_some_and(|(of, kept)| *of == region && at < kept.end && at + PAGE > kept.start);
            for (length, start) in &r.free.by_size {
                let (first, end) = (start.next_multiple_of(PAGE), (start + length) / PAGE * PAGE);
                if first >= end {
                    continue;
                }
                for (at, mapped) in self.mapped.range(first..end).filter(|(at, _)| !is_kept(**at)) {
                    if mapped.last.are_within(passed) { movable.at_rest.push((region, *at)) } else { movable.in_use.push((mapped.last, region, *at)) }
                }
            }
        }
        movable
    }
    fn carve(&mut self, start: u64, bytes: u64) -> PageBlock {
        self.regions[region_of(bytes)].free.take(start, bytes);
        self.handed_out += bytes;
        self.peak = self.peak.max(self.handed_out);
        let behind = self.pages_of(start, bytes).fold(LastTurns::default(), |all, page| all.with(page.last));
        PageBlock { start, bytes, behind }
    }
    fn pages_of(&mut self, start: u64, bytes: u64) -> impl Iterator<Item = &mut Mapped<S::Page>> {
        self.mapped.range_mut(start / PAGE * PAGE..start + bytes).map(|(_, page)| page)
    }
    /// A block that these turns may use still.
    pub fn give(&mut self, start: u64, bytes: u64, last: LastTurns) {
        self.pages_of(start, bytes).for_each(|page| page.last = page.last.with(last));
        self.handed_out -= bytes;
        self.regions[region_of(bytes)].free.put(start, bytes);
    }
    /// Gives up whole free pages that are at rest: how many bytes.
    pub fn trim(&mut self, passed: LastTurns) -> u64 {
        let before = self.mapped.len();
        if self.end_left(passed).is_ok() {
            for (region, at) in self.movable(None, passed).at_rest {
                if let Ok(Some(taken)) = self.taken_away(region, at) {
                    self.source.release(taken.page);
                }
            }
        }
        (before - self.mapped.len()) as u64 * PAGE
    }
}
/// Nobody holds a block any more, and no work is under way.
impl<S: PageSource> Drop for PagePool<S> {
    fn drop(&mut self) {
        for left in std::mem::take(&mut self.left) {
            let _ = self.source.unmap(left.at, 1);
        }
        for (at, mapped) in std::mem::take(&mut self.mapped) {
            if self.source.unmap(at, 1).is_ok() {
                self.source.release(mapped.page);
            }
        }
    }
}
fn region_of(bytes: u64) -> usize {
    usize::from(bytes >= SMALL)
}

#[cfg(test)]
mod tests;
