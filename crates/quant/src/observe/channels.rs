//! One observer for each channel of a tensor.
use super::{CodeRange, Observation, Observer, refused};
use adamant_core::Result;

/// Sees tensors, and says for each index of one axis which range of its values codes are to span.
///
/// ```
/// # use adamant_quant::observe::{ChannelObserver, CodeRange, Observation};
/// let mut observer = ChannelObserver::new(Observation::MinMax, 2)?;
/// // Rows of 3: channels are rows, the axis 0.
/// observer.see(&[1.0, -2.0, 0.5, 0.0, 4.0, 1.0], &[2, 3], 0)?;
/// assert_eq!(observer.ranges()?, [(-2.0, 1.0), (0.0, 4.0)]);
/// assert_eq!(observer.codes(CodeRange::I8)?[0], (2.0 / 127.0, 0));
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// Source: `torch.ao.quantization.PerChannelMinMaxObserver`, `MovingAveragePerChannelMinMaxObserver`.
pub struct ChannelObserver {
    channels: Vec<Observer>,
}
impl ChannelObserver {
    /// One for so many channels that has seen nothing.
    ///
    /// # Errors
    /// As [`Observer::new`].
    #[track_caller]
    pub fn new(how: Observation, channels: usize) -> Result<ChannelObserver> {
        Ok(ChannelObserver { channels: (0..channels).map(|_| Observer::new(how)).collect::<Result<_>>()? })
    }
    /// Sees the values of a tensor of a shape, whose channels lie along an axis.
    ///
    /// # Errors
    /// A value that is not finite, with its channel; an axis that the shape has not, or of another length; values of another number
    /// than the shape's. Channels before one that is refused have seen theirs.
    #[track_caller]
    pub fn see(&mut self, values: &[f32], shape: &[usize], axis: usize) -> Result<()> {
        let elements = shape.iter().try_fold(1usize, |all, n| all.checked_mul(*n));
        if elements != Some(values.len()) {
            return Err(refused(format!("{} values are not those of shape {shape:?}", values.len())));
        }
        let wanted = self.channels.len();
        if shape.get(axis) != Some(&wanted) {
            return Err(refused(format!("axis {axis} of shape {shape:?} does not have the {wanted} channels of the observer")));
        }
        let inner: usize = shape[axis + 1..].iter().product();
        if values.is_empty() {
            return Ok(());
        }
        for (channel, observer) in self.channels.iter_mut().enumerate() {
            let own: Vec<f32> = values.chunks_exact(inner).skip(channel).step_by(wanted).flatten().copied().collect();
            observer.see(&own).map_err(|e| refused(format!("channel {channel}: {}", e.kind())))?;
        }
        Ok(())
    }
    /// The ranges that codes are to span.
    ///
    /// # Errors
    /// As [`Observer::range`].
    #[track_caller]
    pub fn ranges(&self) -> Result<Vec<(f64, f64)>> {
        self.channels.iter().map(Observer::range).collect()
    }
    /// Steps and codes of 0.
    ///
    /// # Errors
    /// As [`Observer::codes`].
    #[track_caller]
    pub fn codes(&self, codes: CodeRange) -> Result<Vec<(f32, i32)>> {
        self.channels.iter().map(|observer| observer.codes(codes)).collect()
    }
}
