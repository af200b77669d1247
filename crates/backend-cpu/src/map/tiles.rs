//! Where the values of a program's registers wait: tiles by kind of number, kept by each thread from kernel to kernel.
use crate::simd::stream::LINE;
use adamant_runtime::DType;
use std::{cell::RefCell, ops::Range};

/// Positions per tile.
pub(crate) const TILE: usize = 1024;

/// Where an output's tile is made: bytes of the output from position `start` on.
pub(crate) struct OutTile<'a> {
    pub bytes: &'a mut [u8],
    pub dtype: DType,
    pub start: usize,
}
impl OutTile<'_> {
    pub fn range(&self, at: usize, n: usize) -> Range<usize> {
        let size = self.dtype.size();
        (at - self.start) * size..(at - self.start + n) * size
    }
}

/// Where the values of one register wait. It begins at a cache line, so that no vector lies across two of them, and
/// tiles begin at different places of a page, so that a read is not taken for one of what was just written elsewhere.
#[derive(Default)]
pub(crate) struct Tile<T> {
    buffer: Vec<T>,
    start: usize,
}
impl<T: Copy + Default> Tile<T> {
    fn new(slot: usize) -> Tile<T> {
        let (line, apart) = (LINE / size_of::<T>(), slot % 8 * 8);
        let buffer = vec![T::default(); TILE + line * (apart + 1)];
        // Only an interpreter of Rust may decline to tell.
        let start = buffer.as_ptr().align_offset(LINE).min(line) + line * apart;
        Tile { start: start.min(buffer.len() - TILE), buffer }
    }
    pub fn values(&self) -> &[T] {
        &self.buffer[self.start..self.start + TILE]
    }
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.buffer[self.start..self.start + TILE]
    }
}
/// Tiles of one kind.
#[derive(Default)]
pub(crate) struct Tiles<T>(Vec<Tile<T>>);
impl<T: Copy + Default> Tiles<T> {
    pub fn take(&mut self, slot: u16) -> Tile<T> {
        let slot = slot as usize;
        while self.0.len() <= slot {
            self.0.push(Tile::new(self.0.len()));
        }
        std::mem::take(&mut self.0[slot])
    }
    pub fn put(&mut self, slot: u16, tile: Tile<T>) {
        self.0[slot as usize] = tile;
    }
    pub fn values(&self, slot: u16) -> &[T] {
        self.0[slot as usize].values()
    }
}
/// The tiles of a thread, reused from kernel to kernel.
#[derive(Default)]
pub(crate) struct Scratch {
    pub f32: Tiles<f32>,
    f64: Tiles<f64>,
    i64: Tiles<i64>,
    bool: Tiles<u8>,
}
thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}
/// Runs `f` with this thread's tiles.
pub(crate) fn with_scratch<R>(f: impl FnOnce(&mut Scratch) -> R) -> R {
    let mut f = Some(f);
    // Of a thread that ends they are gone, and inside a kernel they are taken.
    let ran = SCRATCH.try_with(|s| {
        let mut s = s.try_borrow_mut().ok()?;
        f.take().map(|f| f(&mut s))
    });
    match (ran, f) {
        (Ok(Some(r)), _) => r,
        (_, Some(f)) => f(&mut Scratch::default()),
        _ => unreachable!(),
    }
}

/// A type that tiles hold.
pub(crate) trait Lane: Copy + Default + bytemuck::Pod {
    fn tiles(s: &Scratch) -> &Tiles<Self>;
    fn tiles_mut(s: &mut Scratch) -> &mut Tiles<Self>;
    fn of(v: Value) -> Self;
    fn value(self) -> Value;
}
/// A register that is the same for all elements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    F32(f32),
    F64(f64),
    I64(i64),
    Bool(u8),
}
crate::scratch::kept!(Option<Value>);
macro_rules! lane {
    ($t:ty, $kind:ident, $field:ident) => {
        impl Lane for $t {
            fn tiles(s: &Scratch) -> &Tiles<$t> {
                &s.$field
            }
            fn tiles_mut(s: &mut Scratch) -> &mut Tiles<$t> {
                &mut s.$field
            }
            fn of(v: Value) -> $t {
                match v {
                    Value::F32(v) => v as $t,
                    Value::F64(v) => v as $t,
                    Value::I64(v) => v as $t,
                    Value::Bool(v) => v as $t,
                }
            }
            fn value(self) -> Value {
                Value::$kind(self)
            }
        }
    };
}
lane!(f32, F32, f32);
lane!(f64, F64, f64);
lane!(i64, I64, i64);
lane!(u8, Bool, bool);

/// Calls a generic function with the lane type of a kind.
macro_rules! with_kind {
    ($kind:expr, $t:ident => $body:expr) => {
        match $kind {
            TileKind::F32 => {
                type $t = f32;
                $body
            }
            TileKind::F64 => {
                type $t = f64;
                $body
            }
            TileKind::I64 => {
                type $t = i64;
                $body
            }
            TileKind::Bool => {
                type $t = u8;
                $body
            }
        }
    };
}
pub(crate) use with_kind;
