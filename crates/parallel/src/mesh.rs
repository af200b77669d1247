//! A mesh: ranks numbered along several axes, and the group of each axis that this rank is in.
//!
//! ```text
//! rank = ((data · pipelines + pipeline) · tensors + tensor) · experts + expert
//! ```
//!
//! Along `data` and `expert` the rows of a batch
//! are shared out; along `tensor` all have the same rows, and pieces of layers; along `pipeline` the layers one behind another.
use adamant_core::{
    DType, Error, ErrorKind, Origin, Result, Shape, TensorType,
    communicator::{self, CollectiveCall, Communicator, LoneRank},
    op::{CollectiveKind, Group},
};
use std::{fmt, sync::Arc};

/// How many ranks a mesh has along each axis.
///
/// ```
/// use adamant_parallel::MeshShape;
///
/// let shape = MeshShape { data: 2, tensor: 4, ..MeshShape::default() };
/// assert_eq!((shape.ranks(), shape.to_string()), (8, "data 2 × tensor 4".to_string()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeshShape {
    /// share out the rows of a batch
    pub data: usize,
    /// have the layers one behind another
    pub pipeline: usize,
    /// have pieces of layers
    pub tensor: usize,
    /// share out the experts, and the rows
    pub expert: usize,
}
impl Default for MeshShape {
    fn default() -> MeshShape {
        MeshShape { data: 1, pipeline: 1, tensor: 1, expert: 1 }
    }
}
impl MeshShape {
    /// All ranks together; at most `usize::MAX`.
    pub fn ranks(&self) -> usize {
        MeshAxis::ALL.iter().fold(1usize, |n, axis| n.saturating_mul(self.size(*axis)))
    }
    /// The ranks along an axis.
    pub fn size(&self, axis: MeshAxis) -> usize {
        match axis {
            MeshAxis::Data => self.data,
            MeshAxis::Pipeline => self.pipeline,
            MeshAxis::Tensor => self.tensor,
            MeshAxis::Expert => self.expert,
        }
    }
}
impl fmt::Display for MeshShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<String> = MeshAxis::ALL.iter().filter(|axis| self.size(**axis) > 1).map(|axis| format!("{axis} {}", self.size(*axis))).collect();
        f.write_str(&if axes.is_empty() { "one rank".to_string() } else { axes.join(" × ") })
    }
}
/// An axis of a mesh, from the outermost to the innermost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MeshAxis {
    /// rows of a batch
    Data,
    /// layers one behind another
    Pipeline,
    /// pieces of layers
    Tensor,
    /// experts
    Expert,
}
impl MeshAxis {
    /// From the outermost to the innermost.
    pub const ALL: [MeshAxis; 4] = [MeshAxis::Data, MeshAxis::Pipeline, MeshAxis::Tensor, MeshAxis::Expert];
}
impl fmt::Display for MeshAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["data", "pipeline", "tensor", "expert"][*self as usize])
    }
}

/// Where a rank stands, along the axes in the order of [`MeshAxis::ALL`].
pub type MeshPlace = [usize; 4];

/// Ranks numbered along several axes.
///
/// ```
/// use adamant_distributed::local::local_threads;
/// use adamant_parallel::{Mesh, MeshAxis, MeshShape};
/// use adamant_core::communicator;
///
/// std::thread::scope(|scope| {
///     let ranks: Vec<_> = local_threads(4).map_err(|e| e.to_string())?.into_iter().map(|on| {
///         scope.spawn(move || {
///             let mesh = Mesh::new(&communicator::group(&on), MeshShape { data: 2, tensor: 2, ..MeshShape::default() })?;
///             Ok::<_, adamant_core::Error>((mesh.coordinate(MeshAxis::Data), mesh.coordinate(MeshAxis::Tensor), mesh.group(MeshAxis::Tensor).size))
///         })
///     }).collect();
///     for (rank, thread) in ranks.into_iter().enumerate() {
///         assert_eq!(thread.join().unwrap()?, (rank / 2, rank % 2, 2));
///     }
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mesh {
    shape: MeshShape,
    place: MeshPlace,
    world: Group,
    /// of the axes, in the order of [`MeshAxis::ALL`]
    groups: [Group; 4],
    replicas: Group,
}
impl Mesh {
    /// Of all ranks of a group, which all call it with one shape.
    ///
    /// # Errors
    /// Sizes that do not multiply up to the group's; an axis of no ranks; those of the group: a lost peer, another call, the timeout.
    #[track_caller]
    pub fn new(world: &Group, shape: MeshShape) -> Result<Mesh> {
        let refuse = |text: String| Err(Error::new("mesh", ErrorKind::Argument(text)));
        if let Some(axis) = MeshAxis::ALL.iter().find(|axis| shape.size(**axis) == 0) {
            return refuse(format!("no ranks along the axis {axis}: an axis that is not used has 1"));
        }
        if shape.ranks() != world.size as usize {
            return refuse(format!("{shape} is {} ranks, and the group has {}", shape.ranks(), world.size));
        }
        let place = place_of(shape, world.rank as usize);
        let groups = MeshAxis::ALL.map(|axis| split(world, shape, &[axis]));
        let replicas = split(world, shape, &[MeshAxis::Data, MeshAxis::Expert])?;
        let [data, pipeline, tensor, expert] = groups;
        Ok(Mesh { shape, place, world: world.clone(), groups: [data?, pipeline?, tensor?, expert?], replicas })
    }
    /// Of this process alone, with one rank along each axis.
    pub fn alone() -> Mesh {
        let world = lone();
        Mesh { shape: MeshShape::default(), place: [0; 4], world: world.clone(), groups: MeshAxis::ALL.map(|_| lone()), replicas: lone() }
    }
    /// How many ranks along each axis.
    pub fn shape(&self) -> MeshShape {
        self.shape
    }
    /// All ranks.
    pub fn world(&self) -> &Group {
        &self.world
    }
    /// Ranks along an axis.
    pub fn size(&self, axis: MeshAxis) -> usize {
        self.shape.size(axis)
    }
    /// Where this rank stands along an axis.
    pub fn coordinate(&self, axis: MeshAxis) -> usize {
        self.place[axis as usize]
    }
    /// Where this rank stands.
    pub fn place(&self) -> MeshPlace {
        self.place
    }
    /// The ranks that differ from this one along an axis alone.
    pub fn group(&self, axis: MeshAxis) -> &Group {
        &self.groups[axis as usize]
    }
    /// The ranks that have the same pieces of the same layers, experts aside, and other rows: those along `data` and `expert`.
    pub fn replicas(&self) -> &Group {
        &self.replicas
    }
    /// Where a rank stands.
    ///
    /// # Errors
    /// There is no such rank.
    #[track_caller]
    pub fn place_of(&self, rank: usize) -> Result<MeshPlace> {
        if rank >= self.shape.ranks() {
            return Err(Error::new("mesh", ErrorKind::Argument(format!("there is no rank {rank} among {}", self.shape.ranks()))));
        }
        Ok(place_of(self.shape, rank))
    }
    /// The rank at a place.
    ///
    /// # Errors
    /// There is no such place.
    #[track_caller]
    pub fn rank_at(&self, place: MeshPlace) -> Result<usize> {
        if let Some(axis) = MeshAxis::ALL.iter().find(|axis| place[**axis as usize] >= self.shape.size(**axis)) {
            let text = format!("{axis} {} is beyond the {} ranks along that axis", place[*axis as usize], self.shape.size(*axis));
            return Err(Error::new("mesh", ErrorKind::Argument(text)));
        }
        Ok(rank_at(self.shape, place))
    }
}
impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (rank {} of {}", self.shape, self.world.rank, self.world.size)?;
        for axis in MeshAxis::ALL.into_iter().filter(|axis| self.size(*axis) > 1) {
            write!(f, ", {axis} {}", self.coordinate(axis))?;
        }
        f.write_str(")")
    }
}
fn place_of(shape: MeshShape, mut rank: usize) -> MeshPlace {
    let mut place = [0; 4];
    for axis in MeshAxis::ALL.into_iter().rev() {
        let size = shape.size(axis).max(1);
        place[axis as usize] = rank % size;
        rank /= size;
    }
    place
}
fn rank_at(shape: MeshShape, place: MeshPlace) -> usize {
    MeshAxis::ALL.into_iter().fold(0, |rank, axis| rank * shape.size(axis) + place[axis as usize])
}
/// A group of this rank alone.
pub(crate) fn lone() -> Group {
    communicator::group(&(Arc::new(LoneRank::default()) as Arc<dyn Communicator>))
}
/// The group of the ranks that differ from this one along these axes alone. All ranks split off all such groups, in one order.
#[track_caller]
fn split(world: &Group, shape: MeshShape, along: &[MeshAxis]) -> Result<Group> {
    if along.iter().all(|axis| shape.size(*axis) == 1) {
        return Ok(lone());
    }
    let origin = Origin::here();
    let told = |kind| Error::at("mesh", kind, origin);
    let on = communicator::of(world).map_err(told)?;
    let others = |place: MeshPlace| MeshAxis::ALL.into_iter().filter(|axis| !along.contains(axis)).map(|axis| place[axis as usize]).collect::<Vec<_>>();
    let mut own = None;
    for first in 0..shape.ranks() {
        let same = others(place_of(shape, first));
        let members: Vec<usize> = (0..shape.ranks()).filter(|rank| others(place_of(shape, *rank)) == same).collect();
        if members.first() != Some(&first) {
            continue;
        }
        let call = CollectiveCall::next(on, CollectiveKind::Barrier, TensorType { shape: Shape::SCALAR, dtype: DType::U8 }, Some(origin));
        own = on.split(&call, &members).map_err(told)?.or(own);
    }
    own.map(|own| communicator::group(&own)).ok_or_else(|| told(ErrorKind::Internal(format!("rank {} is in no group along {along:?}", world.rank))))
}
