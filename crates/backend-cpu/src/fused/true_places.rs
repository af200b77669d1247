//! Where flags are true: counted by parts, then each part lists its own behind those before it.
use crate::{
    device::{CpuKernel, KernelOperands, Runtime},
    operand::internal,
};
use adamant_runtime::{Composite, DType, ErrorKind, kernel::FaultWord};
use smallvec::SmallVec;

pub(super) struct TruePlacesKernel;
/// How many flags make a task.
const TASK: usize = 64 * 1024;
/// Flags whose places are listed without a branch.
const BLOCK: usize = 64;

impl CpuKernel for TruePlacesKernel {
    fn supports(&self, _: &dyn Composite, dtypes: &[DType]) -> bool {
        dtypes == [DType::Bool, DType::I64, DType::I64]
    }
    fn run(&self, _: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, _: &FaultWord) -> Result<(), ErrorKind> {
        let ([flags, slots], [out]) = (operands.inputs, &mut *operands.outputs) else { return Err(internal("places have two inputs and one output")) };
        let (flags, slots): (&[u8], &[i64]) = (flags.dense()?, slots.dense()?);
        let out: &mut [i64] = out.dense()?;
        let count = |flags: &[u8]| flags.iter().map(|&flag| usize::from(flag)).sum::<usize>();
        let mut parts: SmallVec<[(usize, &[u8], &mut [i64]); 32]> = SmallVec::new();
        let (mut rest, mut listed) = (out, 0);
        for (task, flags) in flags.chunks(TASK).enumerate() {
            let (head, tail) = std::mem::take(&mut rest).split_at_mut(count(flags).min(slots.len() - listed));
            rest = tail;
            listed += head.len();
            parts.push((task * TASK, flags, head));
        }
        rest.copy_from_slice(&slots[listed..]);
        runtime.threads.for_parts(parts, |_, (first, flags, out)| list(first, flags, out));
        Ok(())
    }
}
/// The places of the first true flags, as many as `out` holds; `first` is that of the first flag.
fn list(first: usize, flags: &[u8], out: &mut [i64]) {
    let mut places = [0i64; BLOCK + 1];
    let mut listed = 0;
    for (block, flags) in flags.chunks(BLOCK).enumerate() {
        if listed == out.len() {
            return;
        }
        let mut found = 0;
        for (place, &flag) in (first + block * BLOCK..).zip(flags) {
            places[found] = place as i64;
            found += usize::from(flag);
        }
        let taken = found.min(out.len() - listed);
        out[listed..listed + taken].copy_from_slice(&places[..taken]);
        listed += taken;
    }
}
