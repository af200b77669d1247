//! Random numbers where ranks hold pieces of one layer.
//!
//! All ranks of a tensor group start from one seed, and draw alike: dropout of a value that all hold is one dropout. Where each holds a piece,
//! the pieces would all be dropped by one pattern; so there the thread's generator is on a stream of the rank's own, for as long as the layer
//! computes. Only the stream changes, and the counter goes on, as far on every rank: behind the layer all draw alike again. So no state
//! is added that would have to be saved, and `manual_seed` decides everything.
use adamant_core::{Device, Result, Tensor, op::Group};
use adamant_nn::init;
use parking_lot::Mutex;

/// Streams that users give their generators are below.
const STREAMS: u32 = 1 << 16;

/// How far a rank's own stream is from that of all.
fn own_stream(group: &Group) -> u32 {
    (group.rank + 1).wrapping_mul(STREAMS)
}
/// How far the stream of a stage of a pipeline is from that of all: beyond those of tensor groups.
pub(crate) fn stage_stream(stage: usize) -> u32 {
    (stage as u32).wrapping_mul(STREAMS << 8)
}
/// Moves this thread's generator for a device to another stream.
#[track_caller]
fn shift(device: Device, by: u32) -> Result<()> {
    let cell = init::generator(device)?.cell().clone();
    // Seed, seed, stream, counter.
    cell.set(&(cell.detached() + Tensor::from_vec_on(vec![0u32, 0, by, 0], [4], device)))
}
/// Runs `f`, in which this thread's generator for the current device draws numbers of the rank's own. Behind it the ranks draw alike
/// again, if they have drawn as often.
///
/// ```
/// # use adamant_core::{Tensor, DType};
/// # use adamant_nn::{init, manual_seed};
/// # use adamant_parallel::{Mesh, MeshAxis, tensor::rank_stream};
/// # adamant_core::Device::reference().make_current();
/// let (mesh, draw) = (Mesh::alone(), || init::uniform([2], 0.0, 1.0)?.to_vec::<f32>());
/// manual_seed(3);
/// let alike = (draw()?, draw()?);
/// manual_seed(3);
/// let own = rank_stream(mesh.group(MeshAxis::Tensor), draw)?;
/// assert_ne!(own, alike.0);
/// assert_eq!(draw()?, alike.1);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// There is no device; those of `f`, behind which the generator is where it was, too.
#[track_caller]
pub fn rank_stream<R>(group: &Group, f: impl FnOnce() -> Result<R>) -> Result<R> {
    let device = Device::current()?;
    let around = StreamAround::of(own_stream(group));
    around.begin(device)?;
    let made = f();
    around.end()?;
    made
}

/// The same around a layer that hooks see.
pub(crate) struct StreamAround {
    by: u32,
    /// the device whose generator is shifted
    inside: Mutex<Option<Device>>,
}
impl StreamAround {
    pub fn new(group: &Group) -> StreamAround {
        StreamAround::of(own_stream(group))
    }
    pub fn of(by: u32) -> StreamAround {
        StreamAround { by, inside: Mutex::new(None) }
    }
    #[track_caller]
    pub fn begin(&self, device: Device) -> Result<()> {
        // A layer that failed had no end.
        self.end()?;
        if self.by != 0 {
            shift(device, self.by)?;
            *self.inside.lock() = Some(device);
        }
        Ok(())
    }
    #[track_caller]
    pub fn end(&self) -> Result<()> {
        let device = self.inside.lock().take();
        device.map_or(Ok(()), |device| shift(device, self.by.wrapping_neg()))
    }
}
