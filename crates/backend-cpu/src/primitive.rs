//! The primitives that one kernel runs as they are, a file each. `primitives!` lists them; a file says on which dtypes it runs
//! and runs it.
use crate::{
    device::Runtime,
    operand::{In, Out, internal},
};
use adamant_runtime::{DType, ErrorKind, Op, Shape, kernel::FaultWord};

/// What a kernel runs with beside its operands.
pub(crate) struct Call<'a> {
    pub runtime: &'a Runtime,
    pub space: &'a Shape,
    pub fault: &'a FaultWord,
}

macro_rules! kernels {
    (planned $planned:tt kernels { $($module:ident: $op:pat => $fields:tt;)* }) => {
        $(mod $module;)*

        /// Is there a kernel for the op on these dtypes (inputs, then outputs)?
        pub(crate) fn supports(op: &Op, dtypes: &[DType]) -> bool {
            match op {
                $($op => $module::supports($fields, dtypes),)*
                _ => false,
            }
        }
        /// Runs the op's kernel.
        ///
        /// # Errors
        /// Operands that do not fit.
        pub(crate) fn run(op: &Op, call: &Call<'_>, inputs: &[In<'_>], outputs: &mut [Out<'_>]) -> Result<(), ErrorKind> {
            match op {
                $($op => $module::run($fields, call, inputs, outputs),)*
                op => Err(internal(&format!("{} has no kernel of its own", op.name()))),
            }
        }
    };
}
adamant_runtime::primitives!(kernels);

/// Have all of the dtypes arithmetic? Whether most primitives run on them.
fn computes<F>(_: F, dtypes: &[DType]) -> bool {
    dtypes.iter().all(|d| d.computes())
}
