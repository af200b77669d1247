//! Pages of the driver's, and addresses to map them to.
use super::pages::{PAGE, PageSource};
use crate::{driver, opened::CudaContext};
use adamant_runtime::ErrorKind;
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
