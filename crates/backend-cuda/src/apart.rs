//! The kernels of a product's parts, where they run one after the other: sums alone, and what comes behind them as a Map. No
//! plan has them; they are prepared once, like a plan's.
use adamant_runtime::{
    kernel::{Kernel, KernelKind},
    product::Product,
};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

/// Those of all products so far.
pub(crate) struct ApartKernels {
    sums: Arc<Kernel>,
    /// by the product's key
    behind: Mutex<HashMap<u64, Vec<(Arc<Product>, Arc<Kernel>)>>>,
}
impl Default for ApartKernels {
    fn default() -> ApartKernels {
        ApartKernels { sums: Arc::new(Kernel::new(KernelKind::Matmul)), behind: Mutex::default() }
    }
}
impl ApartKernels {
    /// A product without ends.
    pub fn sums(&self) -> Arc<Kernel> {
        self.sums.clone()
    }
    /// What becomes of the sums, as a Map whose first input they are.
    pub fn behind(&self, product: &Arc<Product>) -> Arc<Kernel> {
        let mut behind = self.behind.lock();
        let alike = behind.entry(product.key()).or_default();
        if let Some((_, kernel)) = alike.iter().find(|(other, _)| other == product) {
            return kernel.clone();
        }
        let end = &product.epilogue;
        let kernel = Arc::new(Kernel::new(KernelKind::Map { expr: end.expr.clone(), outputs: vec![end.value] }));
        alike.push((product.clone(), kernel.clone()));
        kernel
    }
}
