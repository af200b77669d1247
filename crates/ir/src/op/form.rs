//! What the files of primitives need to say an op by its name and attributes, and to make it again from them. What the types of
//! a node's outputs say is no attribute: the dtype of a cast, the shape of a reshape, an expand, a full. An
//! [`Arg`](crate::Arg) is none either.
use crate::{
    Attr, Attrs, AxisSet, DeviceId, ErrorKind, MAX_RANK, Op, TensorType,
    composite::Given,
    graph::Environment,
    op::{ConvRole, ConvSpec, Group},
};
use smallvec::SmallVec;

/// What a form mentions by a name of the graph: the device that it is at home on, the groups of ranks; and who knows devices.
pub(crate) struct FormContext<'a> {
    pub home: DeviceId,
    pub groups: Vec<Group>,
    pub environment: &'a dyn Environment,
}
/// What the text calls the device that the graph is at home on.
const HOME: &str = "home";
/// The name of a device in the text of a graph.
pub(crate) fn device_name(device: DeviceId, home: DeviceId, environment: &dyn Environment) -> String {
    if device == home { HOME.into() } else { environment.device_name(device).unwrap_or_else(|_| format!("device {}", device.0)) }
}
impl FormContext<'_> {
    /// The device of a name.
    pub fn device(&self, name: &str) -> Result<DeviceId, ErrorKind> {
        if name == HOME { Ok(self.home) } else { self.environment.device_named(name) }
    }
    /// The group's number: groups are numbered as they appear.
    pub fn group(&mut self, group: &Group) -> i64 {
        let known = self.groups.iter().position(|g| g.id == group.id);
        let k = known.unwrap_or_else(|| {
            self.groups.push(group.clone());
            self.groups.len() - 1
        });
        k as i64
    }
}

/// What an op of a name is made of: its attributes, the types of its inputs and of its first output.
pub(crate) struct Made<'a> {
    pub given: &'a mut Given,
    pub inputs: &'a [TensorType],
    pub output: TensorType,
    pub context: &'a FormContext<'a>,
}
pub(crate) type FormResult<T> = Result<T, ErrorKind>;
pub(crate) type Maker = fn(&mut Made<'_>) -> FormResult<Op>;
/// A primitive's names and how each is made.
pub(crate) type Makers = &'static [(&'static str, Maker)];

impl Made<'_> {
    pub fn axis(&mut self) -> Result<u8, ErrorKind> {
        let axis = self.given.size("axis")?;
        u8::try_from(axis).ok().filter(|&a| usize::from(a) < MAX_RANK).ok_or_else(|| ErrorKind::Argument(format!("there is no axis {axis}")))
    }
    pub fn axes(&mut self) -> Result<AxisSet, ErrorKind> {
        axes(self.given)
    }
}
pub(super) fn axis(axis: u8) -> (&'static str, Attr) {
    ("axis", Attr::Int(axis.into()))
}
pub(super) fn ints(it: impl IntoIterator<Item = usize>) -> Attr {
    Attr::Ints(it.into_iter().map(|v| v as i64).collect())
}
pub(super) fn pairs(it: &[(usize, usize)]) -> Attr {
    ints(it.iter().flat_map(|&(before, behind)| [before, behind]))
}
/// The axes of an attribute, each once.
///
/// # Errors
/// One that is named twice or does not exist.
pub fn axes(given: &mut Given) -> Result<AxisSet, ErrorKind> {
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
///
/// # Errors
/// An attribute that is missing or of the wrong kind.
pub fn conv_spec(role: ConvRole, given: &mut Given) -> Result<ConvSpec, ErrorKind> {
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
pub(super) fn small(sizes: Vec<usize>) -> Result<SmallVec<[usize; 3]>, ErrorKind> {
    if sizes.len() > 3 { Err(ErrorKind::Argument("there are at most 3 spatial axes".into())) } else { Ok(SmallVec::from_vec(sizes)) }
}
pub(super) fn in_pairs(sizes: Vec<usize>) -> Result<SmallVec<[(usize, usize); 3]>, ErrorKind> {
    if sizes.len() > 6 || sizes.len() % 2 != 0 {
        return Err(ErrorKind::Argument("padding has two numbers for each of at most 3 spatial axes".into()));
    }
    Ok(sizes.chunks(2).map(|p| (p[0], p[1])).collect())
}

/// The attributes of a primitive whose name and operands tell all.
pub(crate) fn none<F>(_: F, _: &[TensorType], _: &mut FormContext<'_>) -> Attrs {
    Attrs::new()
}
macro_rules! bare {
    ($($module:ident: $makers:expr;)*) => {
        $(pub(crate) mod $module {
            pub(crate) use super::none as attributes;
            pub(crate) const MAKERS: super::Makers = $makers;
        })*
    };
}
// Primitives that have no file here. Those of the scalar tables are made from the tables.
bare! {
    constant: &[("full", |m| Ok(crate::Op::Const(m.output)))];
    random_bits: &[("random_bits", |m| Ok(crate::Op::RandomBits { shape: m.output.shape }))];
    unary: &[];
    binary: &[];
    select: &[("select", |_| Ok(crate::Op::Select))];
    cast: &[("cast", |m| Ok(crate::Op::Cast(m.output.dtype)))];
    bitcast: &[("bitcast", |m| Ok(crate::Op::Bitcast(m.output.dtype)))];
    stop_grad: &[("stop_grad", |_| Ok(crate::Op::StopGrad))];
}
pub(crate) mod iota {
    use super::{Attrs, FormContext, Makers, Op, TensorType};

    pub(crate) fn attributes(axis: &u8, _: &[TensorType], _: &mut FormContext<'_>) -> Attrs {
        smallvec::smallvec![super::axis(*axis)]
    }
    pub(crate) const MAKERS: Makers = &[("iota", |m| Ok(Op::Iota { axis: m.axis()?, ty: m.output }))];
}
pub(crate) mod binary_scalar {
    use super::{Attr, Attrs, FormContext, Makers, TensorType};
    use crate::{op::Side, scalar::Binary};

    pub(crate) fn attributes((_, side): (&Binary, &Side), _: &[TensorType], _: &mut FormContext<'_>) -> Attrs {
        smallvec::smallvec![("scalar", Attr::Text(if *side == Side::Left { "left" } else { "right" }.into()))]
    }
    pub(crate) const MAKERS: Makers = &[];
}
pub(crate) mod transfer {
    use super::{Attr, Attrs, DeviceId, FormContext, Makers, Op, TensorType};

    pub(crate) fn attributes(to: &DeviceId, _: &[TensorType], context: &mut FormContext<'_>) -> Attrs {
        smallvec::smallvec![("device", Attr::Text(super::device_name(*to, context.home, context.environment).into()))]
    }
    pub(crate) const MAKERS: Makers = &[("to", |m| Ok(Op::Transfer(m.context.device(&m.given.text("device")?)?)))];
}
