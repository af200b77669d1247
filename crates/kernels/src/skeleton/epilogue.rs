//! The epilogue of a product where its result is stored: the program of a Map whose first input is no buffer but the value
//! that has just been summed. Must not know how it was.
use crate::{
    bindings::Bindings,
    launcher::{Key, LaunchTarget, Launcher, Work},
    nest::{AxisGroup, Nest},
    program::{self, Program, axes},
    skeleton::{matmul::narrowed, product::accumulator},
};
use adamant_ir::{
    DType, ErrorKind,
    expr::Instr,
    product::{End, Product},
};

/// May a product store through its epilogue? Operands come as they are: their programs are kernels of their own.
pub(crate) fn is_supported(target: &LaunchTarget, product: &Product, dtypes: &[DType]) -> bool {
    let end = &product.epilogue;
    let plain = |d: DType| matches!(d, DType::F32 | DType::F16 | DType::BF16 | DType::I32 | DType::U32);
    let places = |i: &Instr| matches!(i, Instr::Random(_) | Instr::Index(_));
    let faults = |i: &Instr| matches!(i, Instr::Binary(f, x, _) if f.can_fault(end.expr.dtypes[*x as usize]));
    product.prologue.iter().all(End::is_identity)
        && !product.accumulate
        && plain(product.dtype)
        && plain(end.dtype())
        // The parameters, the parts of a split sum and the reports are buffers too.
        && dtypes.len() + 3 <= target.buffers
        && !end.expr.instrs.iter().any(|i| places(i) || faults(i))
        && program::check(target.dialect, &end.expr).is_ok()
}

/// An epilogue with its operands bound.
pub(crate) struct BoundEpilogue<'e> {
    program: Program<'e>,
    nest: Nest,
    end: &'e End,
    product: DType,
}
impl<'e> BoundEpilogue<'e> {
    /// Binds what it reads beside the product: `work` has that alone as its inputs, over the result's space.
    ///
    /// # Errors
    /// The kernel is another backend's.
    pub fn new(launcher: &mut dyn Launcher, bindings: &mut Bindings, product: &'e Product, work: &Work<'_>) -> Result<BoundEpilogue<'e>, ErrorKind> {
        let end = &product.epilogue;
        let program = Program::behind(bindings, &end.expr, work);
        let nest = launcher.nest(1, bindings, &work.space, [&axes(&work.space), &[]], &program.operands(work))?;
        Ok(BoundEpilogue { program, nest, end, product: product.dtype })
    }
    /// Appends its parameters.
    pub fn place(&mut self, bindings: &mut Bindings, parameters: &mut Vec<u32>, work: &Work<'_>) {
        self.program.place(bindings, parameters, work);
        self.nest.place(parameters);
    }
    /// Appends what its text depends on.
    pub fn describe(&self, key: &mut Key) {
        self.program.describe(key);
        self.nest.describe(key);
    }
    /// `fn finished(given: T, number: u32) -> R`: the result for a rounded sum, and its number in the result.
    ///
    /// # Errors
    /// What the dialect has no words for.
    pub fn function(&self, bindings: &Bindings) -> Result<String, ErrorKind> {
        let (from, to) = (accumulator(self.product).name(), accumulator(self.end.dtype()).name());
        let places = self.nest.coordinates(AxisGroup::Outer, "number");
        let body = self.program.body(bindings, &self.nest, "number")?;
        Ok(format!("fn finished(given: {from}, number: u32) -> {to} {{\n{places}{body}return r{};\n}}\n", self.end.value))
    }
    /// The result for a sum, where the function is.
    pub fn finished(&self, total: &str, number: &str) -> String {
        format!("finished({}, {number})", narrowed(self.product, total))
    }
}
