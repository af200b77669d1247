//! Memory of the late device: a buffer of the backend inside, which its queues and nobody else may look into.
use super::{
    POISON,
    queues::{LateAccess, Queues},
};
use adamant_core::{Device, ErrorKind, backend::Memory, buffer::Buffer};
use std::{any::Any, sync::Arc};

pub struct LateBlock {
    pub buffer: Arc<Buffer>,
    inner: Device,
    bytes: usize,
    pub access: LateAccess,
}
impl LateBlock {
    /// Poisoned memory.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(inner: Device, bytes: usize) -> Result<Arc<LateBlock>, ErrorKind> {
        let block = LateBlock { buffer: inner.pool().take(inner, bytes)?, inner, bytes, access: LateAccess::default() };
        block.poison()?;
        Ok(Arc::new(block))
    }
    pub fn poison(&self) -> Result<(), ErrorKind> {
        self.write(0, &vec![POISON; self.bytes])
    }
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), ErrorKind> {
        if offset + from.len() > self.bytes {
            return Err(ErrorKind::Internal("bytes that are not in the memory".into()));
        }
        match self.buffer.write().as_deref_mut() {
            Some(memory) => self.inner.backend().upload(memory, offset, from),
            None => Err(ErrorKind::Internal("a buffer without memory".into())),
        }
    }
    pub fn read(&self, offset: usize, bytes: usize) -> Result<Vec<u8>, ErrorKind> {
        let mut to = vec![0; bytes];
        self.buffer.download(offset, &mut to)?;
        Ok(to)
    }
}
pub struct LateMemory {
    pub block: Arc<LateBlock>,
    pub queues: Arc<Queues>,
}
impl Memory for LateMemory {
    fn bytes(&self) -> usize {
        self.block.bytes
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
impl Drop for LateMemory {
    fn drop(&mut self) {
        self.queues.freed(&self.block.access);
        // Whoever still reads it reads this.
        drop(self.block.poison());
    }
}
