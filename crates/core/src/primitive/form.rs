//! What the files of primitives need to say an op by its name and attributes, and to make it again from them. What the types of
//! a node's outputs say is no attribute: the dtype of a cast, the shape of a reshape, an expand, a full. An
//! [`Arg`](crate::Arg) is none either.
use crate::{
    AxisSet, Device, ErrorKind, MAX_RANK, Meta, Op, TensorType,
    composite::{Attr, Given},
    op::{ConvRole, ConvSpec, Group},
};
use smallvec::SmallVec;

/// What a form mentions by a name of the graph: the device that it is at home on, the groups of ranks.
pub(crate) struct FormContext {
    pub home: Device,
    pub groups: Vec<Group>,
}
impl FormContext {
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

/// What an op of a name is made of: its attributes, the types of its inputs and the kind of its first output.
pub(crate) struct Made<'a> {
    pub given: &'a mut Given,
    pub inputs: &'a [TensorType],
    pub output: Meta,
    pub context: &'a FormContext,
}
pub(super) type FormResult<T> = Result<T, ErrorKind>;
pub(crate) type Maker = fn(&mut Made<'_>) -> FormResult<Op>;
/// A primitive's names and how each is made.
pub(super) type Makers = &'static [(&'static str, Maker)];

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
pub(super) fn small(sizes: Vec<usize>) -> Result<SmallVec<[usize; 3]>, ErrorKind> {
    if sizes.len() > 3 { Err(ErrorKind::Argument("there are at most 3 spatial axes".into())) } else { Ok(SmallVec::from_vec(sizes)) }
}
pub(super) fn in_pairs(sizes: Vec<usize>) -> Result<SmallVec<[(usize, usize); 3]>, ErrorKind> {
    if sizes.len() > 6 || sizes.len() % 2 != 0 {
        return Err(ErrorKind::Argument("padding has two numbers for each of at most 3 spatial axes".into()));
    }
    Ok(sizes.chunks(2).map(|p| (p[0], p[1])).collect())
}
