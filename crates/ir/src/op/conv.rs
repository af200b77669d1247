//! Convolution in one of its three roles.
use super::{form, rules::arity, window::window_size};
use crate::{Attr, Attrs, ErrorKind, HostArray, Op, Shape, TensorType, cost::Cost, host::coordinates};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// One bilinear form, three roles: each role's gradients are the other two, so the primitive closes
/// without flips or dilated inputs. Shapes: x `[n, groups*ci, ..in]`, w `[groups*co, ci, ..k]`, y `[n, groups*co, ..out]`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ConvSpec {
    /// which of the three products
    pub role: ConvRole,
    /// step of the window, per spatial axis
    pub stride: SmallVec<[usize; 3]>,
    /// zeros before and after, per spatial axis
    pub padding: SmallVec<[(usize, usize); 3]>,
    /// spacing of kernel elements, per spatial axis
    pub dilation: SmallVec<[usize; 3]>,
    /// independent groups of channels
    pub groups: usize,
    /// spatial sizes of the output that the inputs leave open: x's for `InputGrad`, w's for `WeightGrad`, empty for `Forward`
    pub open: SmallVec<[usize; 3]>,
}

/// The role of a convolution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConvRole {
    /// (x, w) → y
    Forward,
    /// (y, w) → x: the transposed convolution
    InputGrad,
    /// (x, y) → w
    WeightGrad,
}

impl ConvSpec {
    /// Number of spatial axes.
    pub fn spatial(&self) -> usize {
        self.stride.len()
    }
    /// The shape of its result.
    ///
    /// # Errors
    /// Inputs that do not fit.
    pub fn infer(&self, inputs: &[TensorType]) -> Result<Shape, ErrorKind> {
        arity("conv", 2, inputs)?;
        let (a, b) = (&inputs[0], &inputs[1]);
        let s = self.spatial();
        if a.dtype != b.dtype {
            return Err(ErrorKind::DtypeMismatch { left: a.dtype, right: b.dtype });
        }
        if !a.dtype.is_float() || !a.dtype.computes() {
            return Err(ErrorKind::Dtype(format!("convolution needs floats, not {}", a.dtype)));
        }
        if !(1..=3).contains(&s) || self.padding.len() != s || self.dilation.len() != s {
            return Err(ErrorKind::Argument("stride, padding and dilation need one entry per spatial axis (1 to 3)".into()));
        }
        if self.groups == 0 || self.stride.contains(&0) || self.dilation.contains(&0) {
            return Err(ErrorKind::Argument("groups, stride and dilation are at least 1".into()));
        }
        for m in [a, b] {
            if m.shape.rank() != s + 2 {
                return Err(ErrorKind::Shape { shape: m.shape, expected: format!("{} axes: two and {s} spatial ones", s + 2) });
            }
        }
        let g = self.groups;
        let differ = |i: usize, j: usize, expected| ErrorKind::ShapeMismatch { left: a.shape, right: b.shape, axes: Some((i, j)), expected };
        let mut dims: SmallVec<[usize; 5]> = SmallVec::new();
        match self.role {
            ConvRole::Forward => {
                if a.shape[1] != b.shape[1].saturating_mul(g) {
                    return Err(differ(1, 1, "the input's channels must be groups times the weight's"));
                }
                if b.shape[0] % g != 0 {
                    return Err(ErrorKind::Argument(format!("{} output channels do not divide into {g} groups", b.shape[0])));
                }
                dims.extend([a.shape[0], b.shape[0]]);
                for k in 0..s {
                    let out = window_size(a.shape[2 + k], b.shape[2 + k], self.stride[k], self.padding[k], self.dilation[k]);
                    dims.push(out.ok_or_else(|| ErrorKind::ShapeMismatch {
                        left: a.shape,
                        right: b.shape,
                        axes: Some((2 + k, 2 + k)),
                        expected: "the kernel must fit into the padded input",
                    })?);
                }
            }
            ConvRole::InputGrad => {
                if a.shape[1] != b.shape[0] {
                    return Err(differ(1, 0, "the input's channels must be the weight's first axis"));
                }
                if b.shape[0] % g != 0 {
                    return Err(ErrorKind::Argument(format!("{} channels do not divide into {g} groups", b.shape[0])));
                }
                dims.extend([a.shape[0], b.shape[1] * g]);
                self.check_open(&a.shape[2..], &b.shape[2..], &self.open)?;
                dims.extend(self.open.iter().copied());
            }
            ConvRole::WeightGrad => {
                if a.shape[0] != b.shape[0] {
                    return Err(differ(0, 0, "batch sizes must be equal"));
                }
                if a.shape[1] % g != 0 || b.shape[1] % g != 0 {
                    return Err(ErrorKind::Argument(format!("channels {} and {} do not divide into {g} groups", a.shape[1], b.shape[1])));
                }
                dims.extend([b.shape[1], a.shape[1] / g]);
                self.check_open(&b.shape[2..], &self.open, &a.shape[2..])?;
                dims.extend(self.open.iter().copied());
            }
        }
        Shape::new(&dims)
    }
    fn check_open(&self, y: &[usize], w: &[usize], x: &[usize]) -> Result<(), ErrorKind> {
        for k in 0..self.spatial() {
            let (Some(&w), Some(&x)) = (w.get(k), x.get(k)) else {
                return Err(ErrorKind::Argument("an open size per spatial axis is needed".into()));
            };
            if window_size(x, w, self.stride[k], self.padding[k], self.dilation[k]) != Some(y[k]) {
                return Err(ErrorKind::Argument(format!("an input of size {x} with a kernel of {w} does not give an output of {}", y[k])));
            }
        }
        Ok(())
    }
}

/// One multiply-add for each element of y, input channel of its group, and place of the kernel.
pub(crate) fn cost(spec: &ConvSpec, inputs: &[TensorType], made: &TensorType) -> Cost {
    let [a, b] = inputs else { return Cost::default() };
    let (y, w) = match spec.role {
        ConvRole::Forward => (made, b),
        ConvRole::InputGrad => (a, b),
        ConvRole::WeightGrad => (b, made),
    };
    Cost::product(&[y.shape.elements(), w.shape[1..].iter().product()])
}

/// The result in plain f64.
pub(crate) fn run(spec: &ConvSpec, inputs: &[HostArray], meta: &TensorType) -> HostArray {
    let mut out = vec![0f64; meta.shape.elements()];
    let result = |i: &[usize]| i.iter().zip(meta.shape.iter()).fold(0, |at, (&i, &d)| at * d + i);
    let s = spec.spatial();
    // Shapes of the three tensors of the bilinear form.
    let (x, w, y) = match spec.role {
        ConvRole::Forward => (inputs[0].shape, inputs[1].shape, meta.shape),
        ConvRole::InputGrad => (meta.shape, inputs[1].shape, inputs[0].shape),
        ConvRole::WeightGrad => (inputs[0].shape, meta.shape, inputs[1].shape),
    };
    let (ci, co) = (w[1], w[0] / spec.groups);
    for iy in coordinates(&y) {
        let group = iy[1] / co.max(1);
        for ik in coordinates(&w.with(0, 1)) {
            let mut ix = vec![iy[0], group * ci + ik[1]];
            for d in 0..s {
                let p = (iy[2 + d] * spec.stride[d] + ik[2 + d] * spec.dilation[d]) as isize - spec.padding[d].0 as isize;
                match usize::try_from(p).ok().filter(|&p| p < x[2 + d]) {
                    Some(p) => ix.push(p),
                    None => break,
                }
            }
            if ix.len() < 2 + s {
                continue;
            }
            let mut iw = ik.clone();
            iw[0] = iy[1];
            match spec.role {
                ConvRole::Forward => out[result(&iy)] += inputs[0].float(inputs[0].at(&ix)) * inputs[1].float(inputs[1].at(&iw)),
                ConvRole::InputGrad => out[result(&ix)] += inputs[0].float(inputs[0].at(&iy)) * inputs[1].float(inputs[1].at(&iw)),
                ConvRole::WeightGrad => out[result(&iw)] += inputs[0].float(inputs[0].at(&ix)) * inputs[1].float(inputs[1].at(&iy)),
            }
        }
    }
    HostArray::floats(meta.shape, meta.dtype, out)
}

/// The attributes in a graph's text.
pub(crate) fn attributes(spec: &ConvSpec, _: &[TensorType], _: &mut form::FormContext<'_>) -> Attrs {
    let mut attrs: Attrs = smallvec![
        ("stride", form::ints(spec.stride.iter().copied())),
        ("padding", form::pairs(&spec.padding)),
        ("dilation", form::ints(spec.dilation.iter().copied())),
        ("groups", Attr::Int(spec.groups as i64)),
    ];
    attrs.extend((!spec.open.is_empty()).then(|| ("open", form::ints(spec.open.iter().copied()))));
    attrs
}
fn made(role: ConvRole, m: &mut form::Made<'_>) -> form::FormResult<Op> {
    Ok(Op::Conv(Arc::new(form::conv_spec(role, m.given)?)))
}
/// How it is made again of them.
pub(crate) const MAKERS: form::Makers =
    &[("conv", |m| made(ConvRole::Forward, m)), ("conv_transpose", |m| made(ConvRole::InputGrad, m)), ("conv_weight_grad", |m| made(ConvRole::WeightGrad, m))];
