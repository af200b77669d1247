//! The form of an op: its name and its attributes, and the op again from them. The text, the hash and the search for common
//! subexpressions see ops through this table alone, so an attribute that is missing here is missing in all three.
//!
//! What the types of a node's outputs say is no attribute: the dtype of a cast, the shape of a reshape, an expand, a full.
//! An [`Arg`](crate::Arg) is none either.
use super::{Type, place};
use crate::{
    AxisSet, Device, ErrorKind, MAX_RANK, Meta, Op, Shape,
    composite::{Attr, Attrs, Given, build},
    op::{ArgOp, CollectiveKind, ConvRole, ConvSpec, Group, PadSpec, ReduceOp, ScanOp, ScatterMode, Side, View, WindowOp, WindowSpec},
    scalar::{Binary, Unary},
};
use smallvec::{SmallVec, smallvec};
use std::{collections::HashMap, sync::LazyLock};

/// What a form mentions by a name of the graph: the device that it is at home on, the groups of ranks.
pub(super) struct Context {
    pub home: Device,
    pub groups: Vec<Group>,
}
impl Context {
    /// The group's number: groups are numbered as they appear.
    fn group(&mut self, group: &Group) -> i64 {
        let known = self.groups.iter().position(|g| g.id == group.id);
        let k = known.unwrap_or_else(|| {
            self.groups.push(group.clone());
            self.groups.len() - 1
        });
        k as i64
    }
}

fn ints(it: impl IntoIterator<Item = usize>) -> Attr {
    Attr::Ints(it.into_iter().map(|v| v as i64).collect())
}
fn pairs(it: &[(usize, usize)]) -> Attr {
    ints(it.iter().flat_map(|&(before, behind)| [before, behind]))
}
fn axis(axis: u8) -> (&'static str, Attr) {
    ("axis", Attr::Int(axis.into()))
}
const SCATTERS: [(&str, ScatterMode); 5] =
    [("set", ScatterMode::Set), ("add", ScatterMode::Add), ("mul", ScatterMode::Mul), ("max", ScatterMode::Max), ("min", ScatterMode::Min)];

/// The attributes of an op, whose name is [`Op::name`].
pub(super) fn attributes(op: &Op, inputs: &[Type], context: &mut Context) -> Attrs {
    match op {
        Op::Input | Op::Const(_) | Op::RandomBits { .. } | Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Cast(_) | Op::Bitcast(_) => Attrs::new(),
        Op::Matmul | Op::StopGrad | Op::View(View::Reshape(_) | View::Expand(_)) => Attrs::new(),
        Op::Iota { axis: a, .. } | Op::Concat { axis: a } | Op::UpdateSlice { axis: a } => smallvec![axis(*a)],
        Op::ArgReduce { axis: a, .. } | Op::Gather { axis: a } => smallvec![axis(*a)],
        Op::BinaryScalar(_, side) => smallvec![("scalar", Attr::Text(if *side == Side::Left { "left" } else { "right" }.into()))],
        Op::View(View::Permute(perm)) => {
            let rank = inputs.first().map_or(0, |t| t.shape.rank());
            smallvec![("perm", ints(perm[..rank].iter().map(|&p| p as usize)))]
        }
        // How many elements are taken says the output's type.
        Op::View(View::Slice { axis: a, step, .. }) => smallvec![axis(*a), ("step", Attr::Int(*step as i64))],
        Op::View(View::Flip(axes)) => smallvec![("axes", ints(axes.iter()))],
        Op::Pad(pad) => smallvec![("widths", Attr::Ints(pad.widths.iter().flat_map(|&(lo, hi)| [lo as i64, hi as i64]).collect()))],
        Op::Reduce { axes, .. } => smallvec![("axes", ints(axes.iter()))],
        Op::Scan { axis: a, reverse, .. } => smallvec![axis(*a), ("reverse", Attr::Bool(*reverse))],
        Op::Sort { axis: a, descending } => smallvec![axis(*a), ("descending", Attr::Bool(*descending))],
        Op::Scatter { axis: a, mode } => {
            let word = SCATTERS.iter().find(|(_, m)| m == mode).map_or("", |(word, _)| *word);
            smallvec![axis(*a), ("mode", Attr::Text(word.into()))]
        }
        Op::Conv(c) => {
            let mut attrs: Attrs = smallvec![
                ("stride", ints(c.stride.iter().copied())),
                ("padding", pairs(&c.padding)),
                ("dilation", ints(c.dilation.iter().copied())),
                ("groups", Attr::Int(c.groups as i64)),
            ];
            attrs.extend((!c.open.is_empty()).then(|| ("open", ints(c.open.iter().copied()))));
            attrs
        }
        Op::Window(w) => {
            let mut attrs: Attrs = smallvec![
                ("size", ints(w.size.iter().copied())),
                ("stride", ints(w.stride.iter().copied())),
                ("padding", pairs(&w.padding)),
                ("dilation", ints(w.dilation.iter().copied())),
            ];
            attrs.extend((!w.open.is_empty()).then(|| ("open", ints(w.open.iter().copied()))));
            attrs
        }
        Op::Transfer(device) => smallvec![("device", Attr::Text(place::name_of(*device, context.home).into()))],
        Op::Collective { kind, group } => {
            let group = ("group", Attr::Int(context.group(group)));
            match kind {
                CollectiveKind::AllReduceSum => smallvec![group],
                CollectiveKind::Broadcast { root } => smallvec![group, ("root", Attr::Int(*root as i64))],
            }
        }
        Op::Composite(c) => c.attrs(),
    }
}

/// What an op of a name is made of: its attributes, the types of its inputs and the kinds of its outputs.
struct Made<'a> {
    given: &'a mut Given,
    inputs: &'a [Type],
    output: Meta,
    context: &'a Context,
}
type Maker = fn(&mut Made<'_>) -> Result<Op, ErrorKind>;
/// A primitive of each name but those of the scalar tables.
const MAKERS: &[(&str, Maker)] = &[
    ("full", |m| Ok(Op::Const(m.output.ty()))),
    ("iota", |m| Ok(Op::Iota { axis: m.axis()?, ty: m.output.ty() })),
    ("random_bits", |m| Ok(Op::RandomBits { shape: m.output.shape })),
    ("select", |_| Ok(Op::Select)),
    ("cast", |m| Ok(Op::Cast(m.output.dtype))),
    ("bitcast", |m| Ok(Op::Bitcast(m.output.dtype))),
    ("reshape", |m| Ok(Op::View(View::Reshape(m.output.shape)))),
    ("expand", |m| Ok(Op::View(View::Expand(m.output.shape)))),
    ("permute", |m| {
        let given = m.given.sizes("perm")?;
        let mut perm = [0u8; MAX_RANK];
        if given.len() > MAX_RANK || given.len() != m.inputs.first().map_or(0, |t| t.shape.rank()) {
            return Err(ErrorKind::Argument("`perm` names each axis of the input once".into()));
        }
        for (to, from) in perm.iter_mut().zip(given) {
            *to = u8::try_from(from).map_err(|_| ErrorKind::Argument(format!("there is no axis {from}")))?;
        }
        Ok(Op::View(View::Permute(perm)))
    }),
    ("slice", |m| {
        let axis = m.axis()?;
        let len = m.output.shape.get(usize::from(axis)).copied();
        let len = len.ok_or(ErrorKind::Axis { axis: axis.into(), rank: m.output.shape.rank() })?;
        Ok(Op::View(View::Slice { axis, len, step: m.given.size("step")? }))
    }),
    ("flip", |m| Ok(Op::View(View::Flip(m.axes()?)))),
    ("pad", |m| {
        let widths = m.given.ints("widths")?;
        if widths.len() % 2 != 0 {
            return Err(ErrorKind::Argument("`widths` has two numbers for each axis".into()));
        }
        Ok(Op::Pad(Box::new(PadSpec { widths: widths.chunks(2).map(|w| (w[0] as isize, w[1] as isize)).collect() })))
    }),
    ("concat", |m| Ok(Op::Concat { axis: m.axis()? })),
    ("update_slice", |m| Ok(Op::UpdateSlice { axis: m.axis()? })),
    ("sum", |m| m.reduce(ReduceOp::Sum)),
    ("prod", |m| m.reduce(ReduceOp::Prod)),
    ("amax", |m| m.reduce(ReduceOp::Max)),
    ("amin", |m| m.reduce(ReduceOp::Min)),
    ("argmax", |m| Ok(Op::ArgReduce { op: ArgOp::Max, axis: m.axis()? })),
    ("argmin", |m| Ok(Op::ArgReduce { op: ArgOp::Min, axis: m.axis()? })),
    ("cumsum", |m| m.scan(ScanOp::Sum)),
    ("cumprod", |m| m.scan(ScanOp::Prod)),
    ("cummax", |m| m.scan(ScanOp::Max)),
    ("cummin", |m| m.scan(ScanOp::Min)),
    ("linear_recurrence", |m| m.scan(ScanOp::LinearRecurrence)),
    ("matmul", |_| Ok(Op::Matmul)),
    ("conv", |m| m.conv(ConvRole::Forward)),
    ("conv_transpose", |m| m.conv(ConvRole::InputGrad)),
    ("conv_weight_grad", |m| m.conv(ConvRole::WeightGrad)),
    ("max_pool", |m| m.window(WindowOp::Max)),
    ("sum_pool", |m| m.window(WindowOp::Sum)),
    ("sum_pool_transposed", |m| m.window(WindowOp::SumTransposed)),
    ("gather", |m| Ok(Op::Gather { axis: m.axis()? })),
    ("scatter", |m| {
        let (axis, word) = (m.axis()?, m.given.text("mode")?);
        match SCATTERS.iter().find(|(w, _)| *w == word) {
            Some((_, mode)) => Ok(Op::Scatter { axis, mode: *mode }),
            None => Err(ErrorKind::Argument(format!("`mode` is none of {}, but `{word}`", SCATTERS.map(|(w, _)| w).join(", ")))),
        }
    }),
    ("sort", |m| Ok(Op::Sort { axis: m.axis()?, descending: m.given.bool("descending")? })),
    ("to", |m| Ok(Op::Transfer(place::device(&m.given.text("device")?, m.context.home)?.id()))),
    ("all_reduce", |m| Ok(Op::Collective { kind: CollectiveKind::AllReduceSum, group: m.group()? })),
    ("broadcast", |m| {
        let (group, root) = (m.group()?, m.given.size("root")?);
        let ranks = crate::communicator::of(&group)?.size();
        if root >= ranks {
            return Err(ErrorKind::Argument(format!("there is no rank {root} among {ranks}")));
        }
        Ok(Op::Collective { kind: CollectiveKind::Broadcast { root }, group })
    }),
    ("stop_grad", |_| Ok(Op::StopGrad)),
];
impl Made<'_> {
    fn axis(&mut self) -> Result<u8, ErrorKind> {
        let axis = self.given.size("axis")?;
        u8::try_from(axis).ok().filter(|&a| usize::from(a) < MAX_RANK).ok_or_else(|| ErrorKind::Argument(format!("there is no axis {axis}")))
    }
    fn axes(&mut self) -> Result<AxisSet, ErrorKind> {
        axes(self.given)
    }
    fn reduce(&mut self, op: ReduceOp) -> Result<Op, ErrorKind> {
        Ok(Op::Reduce { op, axes: self.axes()? })
    }
    fn scan(&mut self, op: ScanOp) -> Result<Op, ErrorKind> {
        Ok(Op::Scan { op, axis: self.axis()?, reverse: self.given.bool("reverse")? })
    }
    fn conv(&mut self, role: ConvRole) -> Result<Op, ErrorKind> {
        Ok(crate::specs::conv_op(conv_spec(role, self.given)?))
    }
    fn window(&mut self, op: WindowOp) -> Result<Op, ErrorKind> {
        let given = &mut *self.given;
        Ok(crate::specs::window_op(WindowSpec {
            op,
            size: small(given.sizes("size")?)?,
            stride: small(given.sizes("stride")?)?,
            padding: in_pairs(given.sizes("padding")?)?,
            dilation: small(given.sizes("dilation")?)?,
            open: small(given.sizes_or_none("open")?)?,
        }))
    }
    fn group(&mut self) -> Result<Group, ErrorKind> {
        let group = self.given.size("group")?;
        self.context.groups.get(group).cloned().ok_or_else(|| ErrorKind::Argument(format!("group {group} was not given to the reader of the text")))
    }
}
/// The axes of an attribute, each once.
pub(crate) fn axes(given: &mut Given) -> Result<AxisSet, ErrorKind> {
    let mut set = AxisSet::default();
    for axis in given.sizes("axes")? {
        if axis >= MAX_RANK || set.has(axis) {
            return Err(ErrorKind::Argument(format!("axis {axis} is named twice or does not exist")));
        }
        set.0 |= 1 << axis;
    }
    Ok(set)
}
/// The geometry of a convolution from its attributes.
pub(crate) fn conv_spec(role: ConvRole, given: &mut Given) -> Result<ConvSpec, ErrorKind> {
    Ok(ConvSpec {
        role,
        stride: small(given.sizes("stride")?)?,
        padding: in_pairs(given.sizes("padding")?)?,
        dilation: small(given.sizes("dilation")?)?,
        groups: given.size("groups")?,
        open: small(given.sizes_or_none("open")?)?,
    })
}
/// At most one number for each spatial axis.
fn small(sizes: Vec<usize>) -> Result<SmallVec<[usize; 3]>, ErrorKind> {
    if sizes.len() > 3 { Err(ErrorKind::Argument("there are at most 3 spatial axes".into())) } else { Ok(SmallVec::from_vec(sizes)) }
}
fn in_pairs(sizes: Vec<usize>) -> Result<SmallVec<[(usize, usize); 3]>, ErrorKind> {
    if sizes.len() > 6 || sizes.len() % 2 != 0 {
        return Err(ErrorKind::Argument("padding has two numbers for each of at most 3 spatial axes".into()));
    }
    Ok(sizes.chunks(2).map(|p| (p[0], p[1])).collect())
}

/// Ops whose form is their name.
enum Named {
    Maker(Maker),
    Unary(Unary),
    Binary(Binary),
}
static NAMED: LazyLock<HashMap<&'static str, Named>> = LazyLock::new(|| {
    let makers = MAKERS.iter().map(|(name, maker)| (*name, Named::Maker(*maker)));
    let unary = Unary::ALL.iter().map(|f| (f.name(), Named::Unary(*f)));
    let binary = Binary::ALL.iter().map(|f| (f.name(), Named::Binary(*f)));
    makers.chain(unary).chain(binary).collect()
});
/// The names of all primitives.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    NAMED.keys().copied()
}
/// Is there a primitive or a composite of this name?
pub(super) fn is_known(name: &str) -> bool {
    NAMED.contains_key(name) || crate::composite::is_registered(name)
}
/// The op of a name with these attributes, which are all taken. `output` is the kind of its first output.
///
/// # Errors
/// An attribute that is missing, of the wrong kind, or too much; a composite that takes another number of inputs.
pub(super) fn op(name: &str, given: &mut Given, inputs: &[Type], output: Option<(Type, Device)>, context: &Context) -> Result<Op, ErrorKind> {
    let made = match NAMED.get(name) {
        Some(Named::Unary(f)) => Op::Unary(*f),
        Some(Named::Binary(f)) => match given.text_or_none("scalar")?.as_deref() {
            None => Op::Binary(*f),
            Some("left") => Op::BinaryScalar(*f, Side::Left),
            Some("right") => Op::BinaryScalar(*f, Side::Right),
            Some(side) => return Err(ErrorKind::Argument(format!("the scalar stands `left` or `right`, not `{side}`"))),
        },
        Some(Named::Maker(maker)) => {
            let scalar = (Type { shape: Shape::SCALAR, dtype: crate::DType::F32 }, context.home);
            let (ty, device) = output.unwrap_or(scalar);
            let output = Meta { shape: ty.shape, dtype: ty.dtype, device };
            maker(&mut Made { given, inputs, output, context })?
        }
        None => {
            let built = build(name, given)?;
            if !built.inputs.contains(&inputs.len()) {
                let (least, most) = (built.inputs.start(), built.inputs.end());
                return Err(ErrorKind::Argument(format!("{name} with these attributes takes {least} to {most} inputs, not {}", inputs.len())));
            }
            Op::Composite(built.function)
        }
    };
    given.finish()?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ops_of_one_name() {
        assert_eq!(NAMED.len(), MAKERS.len() + Unary::ALL.len() + Binary::ALL.len());
    }
}
