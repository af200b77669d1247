//! What an adapter does at the edges of arithmetic, found by asking it.
use crate::{
    gpu::Gpu,
    launch::{Launches, SharedBuffers},
    memory::Staging,
};
use adamant_kernels::skeleton::edges::{ANSWERS, Edges, questions};
use adamant_runtime::ErrorKind;

/// Asks the adapter.
///
/// # Errors
/// A lost device; an adapter that cannot compile a kernel.
pub(crate) fn probe(gpu: &Gpu) -> Result<Edges, ErrorKind> {
    let answers = gpu.buffer(64, wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC)?;
    let (bindings, parameters, text) = questions(gpu.target().dialect)?;
    let pipeline = gpu.compiled(text, &bindings.access)?;
    let mut launches = Launches::new(gpu);
    launches.launch_one(pipeline, answers.clone(), &parameters);
    let staging = Staging::default();
    launches.run(&SharedBuffers::default(), &staging)?;
    let mut bytes = [0u8; 4 * ANSWERS];
    staging.read(gpu, &answers, 0, &mut bytes)?;
    let mut words = [0; ANSWERS];
    words.iter_mut().zip(bytes.as_chunks().0).for_each(|(word, own)| *word = u32::from_le_bytes(*own));
    Ok(Edges::of(words))
}
