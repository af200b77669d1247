//! What a handler counts on the device, and how the host reads it.
use crate::{NanOptions, kinds::BadKinds, norms::NormsOfLate};
use adamant_core::{Cell, DType, Device, Error, ErrorKind, Result, Tensor, step};

/// In the state: no step commits any more.
const LATCH: u32 = 1 << 31;
/// What is counted, in the order of the counts' elements.
const COUNTS: [&str; 6] = ["consecutive", "bad", "nan", "inf", "overflow", "explosion"];

/// What a handler has counted since it was made, or since its state was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NanStats {
    /// steps up to the one that latched, or all
    pub steps: u32,
    /// Does no step commit any more? Then step `steps` + 1 was the bad one.
    pub latched: bool,
    /// bad steps in a row up to now
    pub consecutive: u32,
    /// bad steps
    pub bad: u32,
    /// steps with NaN in loss, gradients or activations, where kinds are told apart
    pub nan: u32,
    /// steps with infinities there
    pub inf: u32,
    /// steps with overflows there
    pub overflow: u32,
    /// steps whose gradients exploded
    pub explosion: u32,
}
/// The cells of a handler.
pub(crate) struct NanCells {
    pub device: Device,
    /// steps, and [`LATCH`]
    pub state: Cell,
    /// [`COUNTS`]
    pub counts: Cell,
    pub norms: NormsOfLate,
}
impl NanCells {
    #[track_caller]
    pub fn new(device: Device) -> Result<NanCells> {
        Ok(NanCells {
            device,
            state: Cell::new(&Tensor::from_vec_on(vec![0u32], (), device), false)?,
            counts: Cell::new(&Tensor::from_vec_on(vec![0u32; COUNTS.len()], [COUNTS.len()], device), false)?,
            norms: NormsOfLate::new(device)?,
        })
    }
    /// Was it over before this step?
    pub fn latched(&self) -> Tensor {
        self.state.detached().ge(LATCH)
    }
    /// Is it over, with this step?
    pub fn latches(&self, good: &Tensor, options: &NanOptions) -> Tensor {
        let latched = self.latched();
        let now = if options.handling_type.latches() {
            good.logical_not()
        } else {
            // This bad step is one too many.
            self.counts.detached().narrow(0, 0, 1).reshape(()).ge(options.max_consecutive).logical_and(good.logical_not())
        };
        latched.logical_or(&now)
    }
    #[track_caller]
    pub fn count(&self, good: &Tensor, kinds: &BadKinds, options: &NanOptions) -> Result<()> {
        let state = self.state.detached();
        let latched = state.ge(LATCH);
        let detects = options.handling_type == crate::HandlingType::Detect;
        let now = if detects { latched.clone() } else { self.latches(good, options) };
        // The step that latches is not counted: the number tells which it was.
        let next = latched.where_(&state, now.where_(&state + LATCH, &state + 1u32));
        if options.handling_type.latches() {
            return self.state.set(&next);
        }
        let counts = self.counts.detached();
        let bad = good.logical_not().cast(DType::U32);
        let kind = |kind: &Option<Tensor>| kind.as_ref().map_or_else(|| bad.zeros_like(), |k| k.cast(DType::U32));
        let consecutive = (counts.narrow(0, 0, 1).reshape(()) + 1u32) * &bad;
        let rest = Tensor::stack(&[bad.clone(), kind(&kinds.nan), kind(&kinds.inf), kind(&kinds.overflow), kind(&kinds.explosion)], 0);
        let next_counts = Tensor::cat(&[consecutive.reshape([1]), counts.narrow(0, 1, COUNTS.len() - 1) + rest], 0);
        self.state.set(&next)?;
        self.counts.set(&latched.where_(counts, next_counts))
    }
    #[track_caller]
    pub fn look(&self) -> Result<NanStats> {
        let state = self.state.detached().item::<u32>()?;
        let counts = self.counts.detached().to_vec::<u32>()?;
        let at = |k: usize| counts.get(k).copied().unwrap_or_default();
        let latched = state >= LATCH;
        Ok(NanStats { steps: state & !LATCH, latched, consecutive: at(0), bad: at(1), nan: at(2), inf: at(3), overflow: at(4), explosion: at(5) })
    }
    #[track_caller]
    pub fn load(&self, state: &[(String, Tensor)]) -> Result<()> {
        let wrong = |text: String| Error::new("load_state_dict", ErrorKind::Argument(text));
        if let Some((name, _)) = state.iter().find(|(name, _)| !["counts", "norms"].contains(&name.as_str())) {
            return Err(wrong(format!("a handler of bad numbers has no `{name}`")));
        }
        let taken = |name: &str, own: &Tensor| -> Result<Tensor> {
            let (meta, Some((_, given))) = (own.try_meta()?, state.iter().find(|(of, _)| of == name)) else { return own.zeros_like().ok() };
            match given.try_meta()?.shape == meta.shape {
                true => given.cast(meta.dtype).to(self.device).ok(),
                false => Err(wrong(format!("`{name}` is of shape {}, not {}", given.shape()?, meta.shape))),
            }
        };
        let (counts, norms) = (taken("counts", &self.counts.detached())?, taken("norms", &self.norms.detached())?);
        step(|| {
            self.counts.set(&counts)?;
            self.norms.set(&norms)?;
            self.state.set(&self.state.detached().zeros_like())
        })
    }
}
