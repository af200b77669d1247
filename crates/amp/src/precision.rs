//! What a training run computes in, as one value that a description, a program or a test can write down.
use crate::{Autocast, FallbackOptions, Fp8Recipe, PrecisionTable, ScalerOptions, ScalerStats};
use adamant_core::{DType, Error, ErrorKind, Result};
use adamant_optim::WeightUpdate;
use std::{collections::BTreeMap, fmt, str::FromStr};

/// The dtype of products and of what is made of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum PrecisionMode {
    /// everything in f32
    #[default]
    F32,
    /// bf16, which has f32's range: no scaler
    BF16,
    /// f16, with a scaler for gradients that it cannot hold
    F16,
    /// bf16, with the operands of dense layers and matrix products in 8 bits
    FP8,
}
impl PrecisionMode {
    /// All of them.
    pub const ALL: [PrecisionMode; 4] = [PrecisionMode::F32, PrecisionMode::BF16, PrecisionMode::F16, PrecisionMode::FP8];
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            PrecisionMode::F32 => "f32",
            PrecisionMode::BF16 => "bf16",
            PrecisionMode::F16 => "f16",
            PrecisionMode::FP8 => "fp8",
        }
    }
    /// The dtype of its region; none where there is none.
    pub fn dtype(self) -> Option<DType> {
        match self {
            PrecisionMode::F32 => None,
            PrecisionMode::BF16 | PrecisionMode::FP8 => Some(DType::BF16),
            PrecisionMode::F16 => Some(DType::F16),
        }
    }
}
impl fmt::Display for PrecisionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
impl FromStr for PrecisionMode {
    type Err = Error;
    /// ```
    /// use adamant_amp::PrecisionMode;
    /// assert_eq!("bf16".parse::<PrecisionMode>()?, PrecisionMode::BF16);
    /// assert!("fp16".parse::<PrecisionMode>().is_err());
    /// # Ok::<(), adamant_core::Error>(())
    /// ```
    fn from_str(text: &str) -> Result<PrecisionMode> {
        PrecisionMode::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| {
            let all = PrecisionMode::ALL.map(PrecisionMode::name).join(", ");
            Error::new("PrecisionMode", ErrorKind::Argument(format!("there is no mode `{text}`; there are {all}")))
        })
    }
}
/// Which steps a schedule of the learning rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ScheduleOn {
    /// all, also those that the scaler suppressed: the host waits for nothing
    #[default]
    Attempted,
    /// those that changed the weights: the host reads one number a step
    Applied,
}

/// What a run computes in.
///
/// ```
/// use adamant_amp::{Precision, PrecisionMode};
/// let f16 = Precision::of(PrecisionMode::F16);
/// assert!(f16.scaler.enabled && f16.region()?.is_some());
/// assert!(Precision::default().region()?.is_none());
/// # Ok::<(), adamant_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Precision {
    /// the dtype of products
    pub mode: PrecisionMode,
    /// the classes of functions
    pub table: PrecisionTable,
    /// what stays f32, as [`Autocast::keep`] has it
    pub keep: Vec<String>,
    /// the scaler of the loss: on in f16
    pub scaler: ScalerOptions,
    /// layers that fall back to f32; none: they do not
    pub fallback: Option<FallbackOptions>,
    /// So many overflows in a row at the scaler's `min_scale` end the run (20): then it is not the scale.
    pub patience: u32,
    /// the steps that a schedule counts
    pub schedule_on: ScheduleOn,
    /// where the scales of operands in 8 bits come from, in fp8
    pub fp8: Fp8Recipe,
    /// How weights are updated that only products of 16 bits read, and that are stored in their dtype: without f32 masters. None: all
    /// weights are f32.
    pub update: Option<WeightUpdate>,
    /// the dtype in which the optimizer stores its slots, f32 or bf16
    pub slots: DType,
}
impl Default for Precision {
    /// f32.
    fn default() -> Precision {
        Precision::of(PrecisionMode::F32)
    }
}
impl Precision {
    /// A mode with its defaults. The scale of a run is not made smaller than 2^-14: gradients that overflow there are not finite
    /// themselves.
    pub fn of(mode: PrecisionMode) -> Precision {
        let scaler = ScalerOptions { enabled: mode == PrecisionMode::F16, min_scale: f64::powi(2.0, -14), ..ScalerOptions::default() };
        Precision {
            mode,
            table: PrecisionTable::default(),
            keep: Vec::new(),
            scaler,
            fallback: None,
            patience: 20,
            schedule_on: ScheduleOn::default(),
            fp8: Fp8Recipe::default(),
            update: None,
            slots: DType::F32,
        }
    }
    /// The region that a model's forward and its loss run in; none in f32. In fp8 it remembers magnitudes: make one for a run.
    ///
    /// # Errors
    /// A recipe for fp8 that makes no sense.
    #[track_caller]
    pub fn region(&self) -> Result<Option<Autocast>> {
        let Some(dtype) = self.mode.dtype() else { return Ok(None) };
        let region = if self.mode == PrecisionMode::FP8 { Autocast::fp8(self.fp8)? } else { Autocast::of(dtype) };
        Ok(Some(region.table(self.table).keep(self.keep.clone())))
    }
}
impl fmt::Display for Precision {
    /// Everything that a step depends on, in one line: two runs of the same text compute the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.mode)?;
        if self.mode == PrecisionMode::FP8 {
            write!(f, " {:?}", self.fp8)?;
        }
        if let Some(update) = self.update {
            write!(f, ", no masters, {update:?}")?;
        }
        if self.slots != DType::F32 {
            write!(f, ", slots {}", self.slots)?;
        }
        if self.table == PrecisionTable::Torch {
            f.write_str(", table torch")?;
        }
        if !self.keep.is_empty() {
            write!(f, ", keep {:?}", self.keep)?;
        }
        if self.scaler != Precision::of(self.mode).scaler {
            write!(f, ", scaler {:?}", self.scaler)?;
        }
        if let Some(fallback) = self.fallback {
            write!(f, ", fallback after {} of at most {}", fallback.fallback_after, fallback.max_fp32_fallbacks)?;
        }
        if self.schedule_on == ScheduleOn::Applied {
            f.write_str(", schedule on applied steps")?;
        }
        Ok(())
    }
}

/// What mixed precision did in a run so far.
#[derive(Clone, Debug, PartialEq)]
pub struct AmpStats {
    /// the dtype of products
    pub mode: PrecisionMode,
    /// steps applied and skipped, the scale now, its least and its most; none without a scaler
    pub scaler: Option<ScalerStats>,
    /// in how many steps each layer overflowed, where layers are watched
    pub overflows: BTreeMap<String, u32>,
    /// the layers that fell back to f32
    pub fallbacks: Vec<String>,
    /// bytes that the walk back kept of a batch, as they lay in memory in the first step
    pub saved_bytes: Option<usize>,
    /// the share of gradient elements that 16 bits would lose under the scale ([`underflow_share`](crate::underflow_share)), in the last step that
    /// was looked at; in fp8, of bf16
    pub underflow: Option<f64>,
}
