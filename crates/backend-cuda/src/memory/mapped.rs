//! Pages of the driver's, and addresses to map them to.
use super::pages::{LastTurns, NoBlock, PAGE, PageBlock, PagePool, PageSource};
use crate::{
    driver,
    opened::{CudaContext, Opened, internal},
};
use adamant_runtime::{ErrorKind, backend::Queue};
use std::sync::Arc;

/// The driver as a source of pages.
pub(crate) struct DriverPages {
    context: Arc<CudaContext>,
    ranges: Vec<(u64, u64)>,
}
impl DriverPages {
    pub fn new(context: &Arc<CudaContext>) -> DriverPages {
        DriverPages { context: context.clone(), ranges: Vec::new() }
    }
    fn each(address: u64, pages: u64) -> impl Iterator<Item = u64> {
        (0..pages).map(move |k| address + k * PAGE)
    }
}
impl PageSource for DriverPages {
    type Page = u64;
    type Error = ErrorKind;
    fn reserve(&mut self, bytes: u64) -> Result<u64, ErrorKind> {
        let start = self.context.call(|| driver::reserve_addresses(bytes))?;
        self.ranges.push((start, bytes));
        Ok(start)
    }
    fn create(&mut self) -> Result<u64, ErrorKind> {
        self.context.call(|| driver::create_page(self.context.device(), PAGE))
    }
    fn release(&mut self, page: u64) {
        let _ = self.context.call(|| driver::release_page(page));
    }
    fn map(&mut self, address: u64, pages: &[u64]) -> Result<(), ErrorKind> {
        for (k, page) in pages.iter().enumerate() {
            let mapped = self.context.call(|| driver::map_page(address + k as u64 * PAGE, PAGE, *page));
            if let Err(e) = mapped {
                self.unmap(address, k as u64)?;
                return Err(e);
            }
        }
        let count = pages.len() as u64;
        let allowed = if count == 0 { Ok(()) } else { self.context.call(|| driver::allow_access(self.context.device(), address, count * PAGE)) };
        allowed.or_else(|e| self.unmap(address, count).and(Err(e)))
    }
    fn unmap(&mut self, address: u64, pages: u64) -> Result<(), ErrorKind> {
        DriverPages::each(address, pages).try_for_each(|at| self.context.call(|| driver::unmap_page(at, PAGE)))
    }
}
impl Drop for DriverPages {
    fn drop(&mut self) {
        for (start, bytes) in self.ranges.drain(..) {
            let _ = self.context.call(|| driver::give_addresses_back(start, bytes));
        }
    }
}
/// Do mapped pages not keep what is written to them, each by itself and wherever it is mapped, at two addresses too? What was found, if so.
///
/// # Errors
/// A lost device; no memory.
pub(crate) fn mapped_pages_differ(opened: &Arc<Opened>) -> Result<Option<String>, ErrorKind> {
    let mut pool = PagePool::new(DriverPages::new(&opened.context), 16 * PAGE);
    let passed = LastTurns([u64::MAX; 3]);
    let refused = |e| if let NoBlock::Source(kind) = e { kind } else { internal("pages that there are, and no block") };
    let take = |pool: &mut PagePool<DriverPages>, pages: u64| pool.take(pages * PAGE, passed, u64::MAX).map_err(refused);
    let [first, second, third] = [take(&mut pool, 1)?, take(&mut pool, 1)?, take(&mut pool, 1)?];
    let mut found = None;
    let mut look = |written: &[(PageBlock, u32)], read: &[(PageBlock, u32)]| -> Result<(), ErrorKind> {
        for (block, word) in written {
            let turn = opened.queue(Queue::Compute).turn(&Default::default())?;
            turn.call(|s| driver::fill(block.start, *word, (block.bytes / 4) as usize, s))?;
            turn.end()?;
        }
        for (block, word) in read {
            let mut bytes = vec![0; block.bytes as usize];
            opened.copy_out(Queue::Compute, block.start, bytes.len(), &[])?.finish(&mut bytes)?;
            let (words, _) = bytes.as_chunks::<4>();
            if let Some(other) = words.iter().map(|w| u32::from_le_bytes(*w)).find(|w| w != word) {
                found.get_or_insert_with(|| format!("a page reads {other:#x} where {word:#x} was written"));
            }
        }
        Ok(())
    };
    let apart = [(first, 0x0101_0101), (second, 0x0202_0202), (third, 0x0303_0303)];
    look(&apart, &apart)?;
    // Two that are apart become one stretch.
    pool.give(first.start, first.bytes, LastTurns::default());
    pool.give(third.start, third.bytes, LastTurns::default());
    let joined = [(second, 0x0404_0404), (take(&mut pool, 2)?, 0x0505_0505)];
    look(&joined, &joined)?;
    // One that is in use is mapped at a second address.
    pool.give(second.start, second.bytes, passed);
    let most = pool.reserved();
    let anew = pool.take(PAGE, LastTurns::default(), most).map_err(refused)?;
    look(&[(second, 0x0606_0606)], &[(anew, 0x0606_0606)])?;
    look(&[(anew, 0x0707_0707)], &[(second, 0x0707_0707)])?;
    Ok(found)
}
