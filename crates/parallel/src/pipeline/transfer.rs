//! Tensors from stage to stage: a head that says what comes, and the tensor.
use super::schedule::PipelineAction;
use adamant_core::{
    Arg, DType, Device, Error, ErrorKind, MAX_RANK, Op, Result, Shape, Tensor,
    grad::no_grad,
    op::{CollectiveKind, Group},
};

/// What a message is about: a kind, a micro-batch, and a number that tells messages of one kind apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MessageLabel {
    pub kind: MessageKind,
    pub micro: usize,
    pub number: usize,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MessageKind {
    Activation,
    Gradient,
    /// the gradient of a parameter that several stages have
    Shared,
    /// its sum
    Sum,
}
impl MessageLabel {
    /// Chunks count in the whole pipeline here, as both ends know it: an activation is told by the stretch that it goes into, a gradient by the
    /// stretch that it comes from.
    pub fn of(action: PipelineAction, stage: usize, stages: usize) -> MessageLabel {
        let (kind, micro, number) = match action {
            PipelineAction::SendActivation { micro, chunk, .. } => (MessageKind::Activation, micro, chunk * stages + stage + 1),
            PipelineAction::ReceiveActivation { micro, chunk, .. } => (MessageKind::Activation, micro, chunk * stages + stage),
            PipelineAction::SendGradient { micro, chunk, .. } => (MessageKind::Gradient, micro, chunk * stages + stage),
            PipelineAction::ReceiveGradient { micro, chunk, .. } => (MessageKind::Gradient, micro, chunk * stages + stage + 1),
            PipelineAction::Forward { micro, chunk } | PipelineAction::Backward { micro, chunk } => (MessageKind::Activation, micro, chunk),
        };
        MessageLabel { kind, micro, number }
    }
    fn words(self) -> [i64; 3] {
        [self.kind as i64, self.micro as i64, self.number as i64]
    }
}
/// Kind, micro-batch, number, is there a tensor, dtype, axes, sizes.
const HEAD: usize = 6 + MAX_RANK;

#[track_caller]
fn exchanged(kind: CollectiveKind, x: &Tensor, group: &Group) -> Result<Tensor> {
    no_grad(|| {
        let made = Tensor::apply(Op::Collective { kind, group: group.clone() }, Arg::None, &[&x.detach()]);
        made.materialize()?;
        Ok(made)
    })
}
/// Gives a stage a tensor, or word that there is none.
#[track_caller]
pub(super) fn send(group: &Group, to: usize, label: MessageLabel, x: Option<&Tensor>) -> Result<()> {
    let mut head = [0i64; HEAD];
    head[..3].copy_from_slice(&label.words());
    if let Some(x) = x {
        let meta = x.try_meta()?;
        head[3] = 1;
        head[4] = DType::ALL.iter().position(|dtype| *dtype == meta.dtype).unwrap_or(0) as i64;
        head[5] = meta.shape.rank() as i64;
        head[6..].iter_mut().zip(meta.shape.iter()).for_each(|(word, n)| *word = *n as i64);
    }
    exchanged(CollectiveKind::Send { to }, &Tensor::from_vec(head.to_vec(), [HEAD]), group)?;
    x.map_or(Ok(()), |x| exchanged(CollectiveKind::Send { to }, x, group).map(drop))
}
/// Gets what a stage sends.
#[track_caller]
pub(super) fn receive(group: &Group, from: usize, label: MessageLabel) -> Result<Option<Tensor>> {
    let head = exchanged(CollectiveKind::Receive { from }, &Tensor::full([HEAD], 0, DType::I64), group)?.to_vec::<i64>()?;
    if head[..3] != label.words() {
        let text = format!("stage {from} sends {:?}, and stage {} expects {label:?}, which is {:?}", &head[..3], group.rank, label.words());
        return Err(Error::new("pipeline", ErrorKind::Argument(text)).hint("kind, micro-batch, number: all stages take one schedule and as many micro-batches"));
    }
    if head[3] == 0 {
        return Ok(None);
    }
    let dtype = DType::ALL.get(head[4] as usize).copied().unwrap_or(DType::F32);
    let dims: Vec<usize> = head[6..].iter().take(head[5] as usize).map(|n| *n as usize).collect();
    let shape = Shape::new(&dims).map_err(|kind| Error::new("pipeline", kind))?;
    exchanged(CollectiveKind::Receive { from }, &Tensor::full_on(shape, 0, dtype, Device::current()?), group).map(Some)
}
