//! A step that outlives the call that handed it over, and the fault words that it reports to and asks.
use super::{block::LateBlock, queues::LateAccess};
use adamant_core::{
    DType, Device, ErrorKind, Scalar, Shape,
    backend::{Guard, Memory, When, Words},
    kernel::{Fault, FaultWord, Kernel, Operand, Step},
    shape::MAX_RANK,
};
use parking_lot::Mutex;
use std::{any::Any, sync::Arc};

/// The words of a run.
#[derive(Clone)]
pub struct LateWords(Arc<SharedWork>);
struct SharedWork {
    faults: Mutex<Vec<Option<Fault>>>,
    access: LateAccess,
}
impl LateWords {
    pub fn new(count: u32) -> LateWords {
        LateWords(Arc::new(SharedWork { faults: Mutex::new(vec![None; count as usize]), access: LateAccess::default() }))
    }
    /// The words of this device.
    ///
    /// # Errors
    /// They are another backend's.
    pub fn of(words: &Arc<dyn Words>) -> Result<LateWords, ErrorKind> {
        // Not the pointer's own `as_any`.
        let words: &dyn Words = &**words;
        words.as_any().downcast_ref::<LateWords>().cloned().ok_or_else(|| ErrorKind::Internal("words of another backend".into()))
    }
    pub fn access(&self) -> &LateAccess {
        &self.0.access
    }
    pub fn raise(&self, number: u32, fault: Fault) {
        if let Some(word) = self.0.faults.lock().get_mut(number as usize) {
            word.get_or_insert(fault);
        }
    }
    pub fn is_any_raised(&self, of: &[u32]) -> bool {
        let faults = self.0.faults.lock();
        of.iter().any(|&k| faults.get(k as usize).is_some_and(Option::is_some))
    }
    pub fn all(&self) -> Vec<Option<Fault>> {
        self.0.faults.lock().clone()
    }
}
impl Words for LateWords {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[derive(Clone)]
struct OwnOperand {
    block: Arc<LateBlock>,
    shape: Shape,
    offset: usize,
    strides: [isize; MAX_RANK],
    dtype: DType,
    dense: bool,
}
impl OwnOperand {
    fn new(o: &Operand<'_>, block: impl Fn(&dyn Memory) -> Result<Arc<LateBlock>, ErrorKind>) -> Result<OwnOperand, ErrorKind> {
        let guard = o.buffer.read();
        let memory = guard.as_deref().ok_or_else(|| ErrorKind::Internal("a buffer without memory".into()))?;
        Ok(OwnOperand { block: block(memory)?, shape: o.shape, offset: o.offset, strides: *o.strides, dtype: o.dtype, dense: o.dense })
    }
    fn operand(&self) -> Operand<'_> {
        let OwnOperand { shape, offset, ref strides, dtype, dense, .. } = *self;
        Operand { buffer: &self.block.buffer, shape, offset, strides, dtype, dense }
    }
}
#[derive(Clone)]
enum OwnWhen {
    Always,
    Clean(Vec<u32>),
    Raised(Vec<u32>),
}
/// The step.
#[derive(Clone)]
pub struct LateWork {
    kernel: Arc<Kernel>,
    space: Shape,
    inputs: Vec<OwnOperand>,
    outputs: Vec<OwnOperand>,
    args: Vec<Scalar>,
    words: Option<LateWords>,
    reports: Option<u32>,
    when: OwnWhen,
}
impl LateWork {
    pub fn new(step: &Step<'_>, block: impl Fn(&dyn Memory) -> Result<Arc<LateBlock>, ErrorKind> + Copy) -> Result<LateWork, ErrorKind> {
        let own = |operands: &[Operand<'_>]| operands.iter().map(|o| OwnOperand::new(o, block)).collect::<Result<Vec<_>, _>>();
        // What the backend inside prepares for a kernel is prepared once.
        let kernel = step.kernel.prepared.get_or_init(|| Box::new(Arc::new(Kernel::new(step.kernel.kind.clone()))));
        let kernel = kernel.downcast_ref::<Arc<Kernel>>().ok_or_else(|| ErrorKind::Internal("a kernel of another backend".into()))?.clone();
        let Guard { words, reports, when } = step.guard;
        let words = words.map(LateWords::of);
        let when = match when {
            When::Always => OwnWhen::Always,
            When::Clean(words) => OwnWhen::Clean(words.to_vec()),
            When::Raised(words) => OwnWhen::Raised(words.to_vec()),
        };
        let (inputs, outputs, args) = (own(step.inputs)?, own(step.outputs)?, step.args.to_vec());
        Ok(LateWork { kernel, space: step.space, inputs, outputs, args, words: words.transpose()?, reports, when })
    }
    /// What it uses, and whether it writes it.
    pub fn uses(&self) -> Vec<(&LateAccess, bool)> {
        let mut uses: Vec<(&LateAccess, bool)> = self.inputs.iter().map(|o| (&o.block.access, false)).collect();
        uses.extend(self.outputs.iter().map(|o| (&o.block.access, true)));
        if let Some(words) = &self.words {
            match (self.reports, &self.when) {
                (Some(_), _) => uses.push((words.access(), true)),
                (None, OwnWhen::Always) => {}
                (None, _) => uses.push((words.access(), false)),
            }
        }
        uses
    }
    /// Runs it, if it may run.
    ///
    /// # Errors
    /// Those of the backend inside.
    pub fn run(&self, inner: Device) -> Result<(), ErrorKind> {
        let is_raised = |of: &[u32]| self.words.as_ref().is_some_and(|w| w.is_any_raised(of));
        let runs = match &self.when {
            OwnWhen::Always => true,
            OwnWhen::Clean(words) => !is_raised(words),
            OwnWhen::Raised(words) => is_raised(words),
        };
        if !runs {
            return Ok(());
        }
        let fault = FaultWord::default();
        let (inputs, outputs): (Vec<_>, Vec<_>) =
            (self.inputs.iter().map(OwnOperand::operand).collect(), self.outputs.iter().map(OwnOperand::operand).collect());
        let (space, args) = (self.space, &self.args[..]);
        inner.backend().submit(&[Step { kernel: &self.kernel, space, inputs: &inputs, outputs: &outputs, args, fault: &fault, guard: Guard::NONE }])?;
        if let (Some(found), Some(words), Some(number)) = (fault.get(), &self.words, self.reports) {
            words.raise(number, found.clone());
        }
        Ok(())
    }
}
