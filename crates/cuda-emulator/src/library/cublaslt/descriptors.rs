//! Descriptors: what a product is, how a matrix lies, what is preferred. Each is a table of attributes by number, whose
//! sizes and first values are those of `cublasLt.h`.
use crate::driver::entry::{CallStatus, calls};
use crate::driver::pointer::{Host, OutPointer};
use crate::driver::state::DriverState;
use std::collections::BTreeMap;

/// `cublasStatus_t`, other than success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LtStatus(pub u32);

impl LtStatus {
    pub const NOT_INITIALIZED: LtStatus = LtStatus(1);
    pub const INVALID_VALUE: LtStatus = LtStatus(7);
    pub const ARCH_MISMATCH: LtStatus = LtStatus(8);
    pub const EXECUTION_FAILED: LtStatus = LtStatus(13);
    pub const INTERNAL_ERROR: LtStatus = LtStatus(14);
    pub const NOT_SUPPORTED: LtStatus = LtStatus(15);
}
impl CallStatus for LtStatus {
    fn of(number: u32) -> LtStatus {
        LtStatus(number)
    }
    fn number(&self) -> u32 {
        self.0
    }
    fn unknown() -> LtStatus {
        LtStatus::INTERNAL_ERROR
    }
    fn forbidden() -> LtStatus {
        LtStatus::EXECUTION_FAILED
    }
    fn absent() -> LtStatus {
        LtStatus::NOT_INITIALIZED
    }
}

/// What a descriptor describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DescriptorKind {
    Product,
    Layout,
    Preference,
}
/// An attribute: its number, its bytes, its first value.
type Attribute = (u32, usize, u64);
/// Minus one of four bytes: "not set".
const UNSET: u64 = 0xffff_ffff;

/// Attributes of products (`cublasLtMatmulDescAttributes_t`).
#[rustfmt::skip]
const PRODUCT: &[Attribute] = &[
    (0, 4, 0), (1, 4, 0), (2, 4, 0), (3, 4, 0), (4, 4, 0), (5, 4, 0), (6, 4, 2), (7, 4, 1), (8, 8, 0), (10, 8, 0), (11, 8, 0), (12, 8, 0),
    (13, 8, 0), (14, 8, 0), (15, 4, 0), (17, 8, 0), (18, 8, 0), (19, 8, 0), (20, 8, 0), (21, 8, 0), (22, 4, UNSET), (23, 8, 0), (24, 8, 0),
    (25, 1, 0), (26, 4, UNSET), (31, 4, 0), (32, 4, 0), (33, 4, 0), (34, 4, 0), (35, 4, 0), (36, 8, 0), (37, 4, 0),
];
/// Attributes of layouts (`cublasLtMatrixLayoutAttribute_t`).
const LAYOUT: &[Attribute] = &[(0, 4, 0), (1, 4, 0), (2, 8, 0), (3, 8, 0), (4, 8, 0), (5, 4, 1), (6, 8, 0), (7, 8, 0), (8, 4, 0)];
/// Attributes of preferences (`cublasLtMatmulPreferenceAttributes_t`).
const PREFERENCE: &[Attribute] = &[(0, 4, 0), (1, 8, 0), (3, 4, 7), (5, 4, 256), (6, 4, 256), (7, 4, 256), (8, 4, 256), (9, 4, 0), (12, 8, u64::MAX)];

/// A descriptor.
#[derive(Debug, Clone)]
pub(crate) struct Descriptor {
    pub kind: DescriptorKind,
    values: BTreeMap<u32, u64>,
}
impl Descriptor {
    fn new(kind: DescriptorKind) -> Descriptor {
        Descriptor { kind, values: BTreeMap::new() }
    }
    fn table(&self) -> &'static [Attribute] {
        match self.kind {
            DescriptorKind::Product => PRODUCT,
            DescriptorKind::Layout => LAYOUT,
            DescriptorKind::Preference => PREFERENCE,
        }
    }
    /// An attribute's value, as its bytes.
    pub fn get(&self, which: u32) -> u64 {
        let first = self.table().iter().find(|(n, ..)| *n == which).map_or(0, |(.., first)| *first);
        self.values.get(&which).copied().unwrap_or(first)
    }
    pub fn signed(&self, which: u32) -> i64 {
        self.get(which) as i64
    }
    pub fn word(&self, which: u32) -> u32 {
        self.get(which) as u32
    }
    fn with(mut self, which: u32, value: u64) -> Descriptor {
        self.values.insert(which, value);
        self
    }
}

calls! { exports, LtStatus;
    fn cublasLtCreate(state, handle: OutPointer<u64>) {
        handle.needed().map_err(|_| LtStatus::INVALID_VALUE)?;
        state.current().map_err(|_| LtStatus::NOT_INITIALIZED)?;
        // It allocates.
        state.refuse_while_capturing().map_err(|_| LtStatus::NOT_INITIALIZED)?;
        let made = state.handle();
        state.library.handles.insert(made);
        give(handle, made)
    }
    fn cublasLtDestroy(state, handle: u64) {
        if state.library.handles.remove(&handle) { Ok(()) } else { Err(LtStatus::NOT_INITIALIZED) }
    }
    fn cublasLtMatmulDescCreate(state, descriptor: OutPointer<u64>, compute: u32, scale: u32) {
        let made = Descriptor::new(DescriptorKind::Product).with(0, u64::from(compute)).with(1, u64::from(scale));
        state.keep_descriptor(descriptor, made)
    }
    fn cublasLtMatmulDescDestroy(state, descriptor: u64) {
        state.drop_descriptor(descriptor, DescriptorKind::Product)
    }
    fn cublasLtMatmulDescSetAttribute(state, descriptor: u64, which: u32, value: Host, bytes: usize) {
        state.set_attribute(descriptor, DescriptorKind::Product, which, value, bytes)
    }
    fn cublasLtMatmulDescGetAttribute(state, descriptor: u64, which: u32, value: Host, bytes: usize, written: OutPointer<usize>) {
        state.get_attribute(descriptor, DescriptorKind::Product, which, value, bytes, written)
    }
    fn cublasLtMatrixLayoutCreate(state, descriptor: OutPointer<u64>, number: u32, rows: u64, columns: u64, leading: i64) {
        let made = Descriptor::new(DescriptorKind::Layout).with(0, u64::from(number)).with(2, rows).with(3, columns).with(4, leading as u64);
        state.keep_descriptor(descriptor, made)
    }
    fn cublasLtMatrixLayoutDestroy(state, descriptor: u64) {
        state.drop_descriptor(descriptor, DescriptorKind::Layout)
    }
    fn cublasLtMatrixLayoutSetAttribute(state, descriptor: u64, which: u32, value: Host, bytes: usize) {
        state.set_attribute(descriptor, DescriptorKind::Layout, which, value, bytes)
    }
    fn cublasLtMatrixLayoutGetAttribute(state, descriptor: u64, which: u32, value: Host, bytes: usize, written: OutPointer<usize>) {
        state.get_attribute(descriptor, DescriptorKind::Layout, which, value, bytes, written)
    }
    fn cublasLtMatmulPreferenceCreate(state, descriptor: OutPointer<u64>) {
        state.keep_descriptor(descriptor, Descriptor::new(DescriptorKind::Preference))
    }
    fn cublasLtMatmulPreferenceDestroy(state, descriptor: u64) {
        state.drop_descriptor(descriptor, DescriptorKind::Preference)
    }
    fn cublasLtMatmulPreferenceSetAttribute(state, descriptor: u64, which: u32, value: Host, bytes: usize) {
        state.set_attribute(descriptor, DescriptorKind::Preference, which, value, bytes)
    }
    fn cublasLtMatmulPreferenceGetAttribute(state, descriptor: u64, which: u32, value: Host, bytes: usize, written: OutPointer<usize>) {
        state.get_attribute(descriptor, DescriptorKind::Preference, which, value, bytes, written)
    }
}

/// Writes an answer of cuBLASLt's.
pub(crate) fn give<T: Copy>(to: OutPointer<T>, value: T) -> Result<(), LtStatus> {
    to.set(value).map_err(|_| LtStatus::INVALID_VALUE)
}

impl DriverState {
    /// A descriptor of this kind.
    pub fn descriptor(&self, handle: u64, kind: DescriptorKind) -> Result<&Descriptor, LtStatus> {
        self.library.descriptors.get(&handle).filter(|d| d.kind == kind).ok_or(LtStatus::INVALID_VALUE)
    }
    fn keep_descriptor(&mut self, to: OutPointer<u64>, made: Descriptor) -> Result<(), LtStatus> {
        to.needed().map_err(|_| LtStatus::INVALID_VALUE)?;
        let handle = self.handle();
        self.library.descriptors.insert(handle, made);
        give(to, handle)
    }
    fn drop_descriptor(&mut self, handle: u64, kind: DescriptorKind) -> Result<(), LtStatus> {
        self.descriptor(handle, kind)?;
        self.library.descriptors.remove(&handle);
        Ok(())
    }
    fn set_attribute(&mut self, handle: u64, kind: DescriptorKind, which: u32, value: Host, bytes: usize) -> Result<(), LtStatus> {
        let size = size_of_attribute(self.descriptor(handle, kind)?, which)?;
        if value.is_null() || size != bytes {
            return Err(LtStatus::INVALID_VALUE);
        }
        let mut word = [0; 8];
        word.iter_mut().zip(value.read(bytes)).for_each(|(w, b)| *w = b);
        if let Some(descriptor) = self.library.descriptors.get_mut(&handle) {
            descriptor.values.insert(which, u64::from_le_bytes(word));
        }
        Ok(())
    }
    fn get_attribute(&self, handle: u64, kind: DescriptorKind, which: u32, value: Host, bytes: usize, written: OutPointer<usize>) -> Result<(), LtStatus> {
        let descriptor = self.descriptor(handle, kind)?;
        let size = size_of_attribute(descriptor, which)?;
        if bytes == 0 {
            return give(written, size);
        }
        if value.is_null() || size != bytes {
            return Err(LtStatus::INVALID_VALUE);
        }
        value.write(descriptor.get(which).to_le_bytes().get(..size).unwrap_or(&[]));
        written.set_if_asked(size);
        Ok(())
    }
}
fn size_of_attribute(descriptor: &Descriptor, which: u32) -> Result<usize, LtStatus> {
    descriptor.table().iter().find(|(n, ..)| *n == which).map(|(_, size, _)| *size).ok_or(LtStatus::INVALID_VALUE)
}
