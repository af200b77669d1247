//! Which composite is computed by which factorization.
use super::{batch::MatrixBatch, triangle::Triangle, vector::FactorElement};
use crate::{
    composite,
    device::{CpuKernel, KernelOperands, Runtime},
    operand::internal,
};
use adamant_runtime::{
    Attr, Composite, DType, ErrorKind,
    kernel::{Fault, FaultWord},
};

/// The kernel of all of them.
pub(crate) struct FactorKernel;
impl FactorKernel {
    /// The composites that it computes.
    pub const NAMES: [&'static str; 19] = [
        "adamant.det",
        "adamant.cofactors",
        "adamant.slogdet",
        "adamant.inv",
        "adamant.inv_ex",
        "adamant.solve",
        "adamant.solve_ex",
        "adamant.solve_triangular",
        "adamant.lu",
        "adamant.cholesky",
        "adamant.cholesky_ex",
        "adamant.qr",
        "adamant.reflections",
        "adamant.eigh",
        "adamant.eigvalsh",
        "adamant.svd",
        "adamant.svdvals",
        "adamant.pinv",
        "adamant.matrix_exp",
    ];
}
impl CpuKernel for FactorKernel {
    fn supports(&self, _: &dyn Composite, dtypes: &[DType]) -> bool {
        dtypes.first().is_some_and(|d| matches!(d, DType::F32 | DType::F64) && dtypes.iter().all(|e| e == d || !e.is_float()))
    }
    fn run(&self, composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime, fault: &FaultWord) -> Result<(), ErrorKind> {
        let nothing = operands.inputs.iter().any(|i| i.shape.elements() == 0) || operands.outputs.iter().any(|o| o.shape.elements() == 0);
        if nothing {
            return composite::host(composite, operands.inputs, operands.outputs, fault);
        }
        let done = match operands.inputs[0].dtype {
            DType::F64 => run::<f64>(composite, operands, runtime),
            _ => run::<f32>(composite, operands, runtime),
        };
        match done {
            Err(ErrorKind::Domain(s)) => composite::zeros(operands.outputs, fault, Fault::Domain(s)),
            other => other,
        }
    }
}

fn run<T: FactorElement>(composite: &dyn Composite, operands: &mut KernelOperands<'_, '_, '_>, runtime: &Runtime) -> Result<(), ErrorKind> {
    let shape = operands.shape(0)?;
    let (m, n) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
    let a: &[T] = operands.input(0)?;
    let of = MatrixBatch { runtime, count: a.len() / (m * n), m, n, a };
    let b: Option<&[T]> = if operands.inputs.len() > 1 { Some(operands.input(1)?) } else { None };
    match (composite.name(), &mut *operands.outputs, b) {
        ("adamant.det", [out], None) => of.det(out.dense()?),
        ("adamant.cofactors", [out], None) => of.cofactors(out.dense()?),
        ("adamant.slogdet", [sign, log], None) => of.slogdet(sign.dense()?, log.dense()?),
        ("adamant.inv" | "adamant.solve", [out], b) => of.solve(b, out.dense()?, None),
        ("adamant.inv_ex" | "adamant.solve_ex", [out, info], b) => of.solve(b, out.dense()?, Some(info.dense()?)),
        ("adamant.solve_triangular", [out], Some(b)) => {
            let triangle = Triangle { upper: flag(composite, "upper")?, unit: flag(composite, "unit")? };
            of.triangular(triangle, b, out.dense()?)
        }
        ("adamant.lu", [both, pivots, order, info], None) => {
            of.lu_factor(flag(composite, "checked")?, both.dense()?, pivots.dense()?, order.dense()?, info.dense()?)
        }
        ("adamant.cholesky", [out], None) => of.cholesky(out.dense()?, None),
        ("adamant.cholesky_ex", [out, info], None) => of.cholesky(out.dense()?, Some(info.dense()?)),
        ("adamant.qr", [q, r], None) => of.qr(q.dense()?, r.dense()?),
        ("adamant.reflections", [packed, taus], None) => of.reflections(packed.dense()?, taus.dense()?),
        ("adamant.eigh", [values, vectors], None) => of.eigh(values.dense()?, vectors.dense()?),
        ("adamant.eigvalsh", [values], None) => of.eigenvalues(values.dense()?),
        ("adamant.svd", [u, s, vt], None) => of.svd(u.dense()?, s.dense()?, vt.dense()?),
        ("adamant.svdvals", [values], None) => of.singular_values(values.dense()?),
        ("adamant.pinv", [out], None) => match composite.attrs()[..] {
            [("rtol", Attr::Float(rtol))] => of.pinv(rtol, out.dense()?),
            _ => Err(internal("a pseudo-inverse does not say what counts as zero")),
        },
        ("adamant.matrix_exp", [out], None) => of.exponential(out.dense()?),
        (name, ..) => Err(internal(&format!("{name} has other operands"))),
    }
}
fn flag(composite: &dyn Composite, name: &str) -> Result<bool, ErrorKind> {
    match composite.attrs().iter().find(|a| a.0 == name) {
        Some((_, Attr::Bool(value))) => Ok(*value),
        _ => Err(internal(&format!("{} does not say whether it is {name}", composite.name()))),
    }
}
