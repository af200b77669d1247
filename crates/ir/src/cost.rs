//! What an op costs, by its shapes alone. Counted are floating-point operations as the op is defined, not as a kernel
//! does them: 2 for a multiply-add of a product or convolution (padding included), 1 for an element of an element-wise
//! function whatever it is, 1 for an element that a reduction, scan or window takes in. Moving, choosing, converting
//! and comparing positions (views, gather, select, casts, sorting, random bits) cost none, nor does whatever else is done
//! with integers and truth values alone, but for products of integers, which quantized layers are made of. What a
//! composite costs, its plain body tells, which is not known here.
/// The cost of an op or a graph.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// floating-point operations
    pub flops: u64,
    /// multiply-adds of products and convolutions, which are 2 of `flops` each
    pub multiply_adds: u64,
    /// composites without a plain body, whose cost is not known
    pub unknown: Vec<&'static str>,
}
impl Cost {
    pub(crate) fn elementwise(flops: usize) -> Cost {
        Cost { flops: flops as u64, ..Cost::default() }
    }
    pub(crate) fn product(factors: &[usize]) -> Cost {
        let multiply_adds = factors.iter().fold(1u64, |n, &f| n.saturating_mul(f as u64));
        Cost { flops: multiply_adds.saturating_mul(2), multiply_adds, ..Cost::default() }
    }
    /// Takes in another cost.
    pub fn add(&mut self, other: &Cost) {
        self.flops = self.flops.saturating_add(other.flops);
        self.multiply_adds = self.multiply_adds.saturating_add(other.multiply_adds);
        for name in &other.unknown {
            if !self.unknown.contains(name) {
                self.unknown.push(name);
            }
        }
    }
}
