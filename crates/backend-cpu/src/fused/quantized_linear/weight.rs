//! The weight of a layer of codes as it is stored, and its codes as bytes and as numbers.
use crate::{
    gemm::{
        bytes::{
            groups::StoredScales,
            micro::{BLOCK, QUAD},
            pack::pack_blocks,
        },
        context::AlignedBuffer,
        pack::MatrixView,
    },
    isa::Isa,
    simd::{Simd, SimdKernel, dispatch},
};
use adamant_runtime::{
    ErrorKind,
    composite::packed::{CodeLevels, Packing},
    f16,
};

/// The weight of a layer, its bias, and what else its rows have.
#[derive(Clone, Copy)]
pub(in super::super) struct CodedWeight<'a> {
    pub(in super::super) packing: Packing,
    pub(in super::super) levels: CodeLevels,
    pub(in super::super) bytes: &'a [u8],
    /// `[rows, groups]`
    pub(in super::super) scale: &'a [f32],
    /// the same as they are stored, in the place of `scale`, for kernels that widen those of some rows at a time
    pub(super) halves: Option<&'a [f16]>,
    /// likewise, where codes are affine
    pub(in super::super) zero_point: Option<&'a [u8]>,
    pub(in super::super) bias: Option<&'a [f32]>,
    pub(in super::super) rows: usize,
    pub(in super::super) columns: usize,
}
impl<'a> CodedWeight<'a> {
    /// Are its parts as long as its sizes say?
    pub(in super::super) fn fits(&self) -> bool {
        let groups = self.groups();
        self.bytes.len() == self.rows * self.packing.row_bytes(self.columns)
            && self.halves.map_or(self.scale.len(), <[f16]>::len) == self.rows * groups
            && self.columns.is_multiple_of(groups)
            && self.zero_point.is_none_or(|z| z.len() == self.rows * groups)
            && self.bias.is_none_or(|b| b.len() == self.rows)
    }
    /// Its scales as they are.
    pub(super) fn stored_scales(&self) -> StoredScales<'a> {
        self.halves.map_or(StoredScales::Floats(self.scale), StoredScales::Halves)
    }
    pub(super) fn groups(&self) -> usize {
        self.packing.groups(self.columns)
    }
    /// Columns that share a scale.
    pub(super) fn group(&self) -> usize {
        self.columns / self.groups()
    }
    /// Are the codes, as bytes, signed?
    pub(super) fn signed(&self) -> bool {
        self.packing.bits == 8 && self.packing.symmetric
    }
    /// What bytes are xored with to be signed.
    pub(in super::super) fn flip(&self) -> u8 {
        if self.packing.bits == 8 && !self.packing.symmetric { 0x80 } else { 0 }
    }
    /// What signed bytes of a row's group count from.
    #[inline(always)]
    pub(in super::super) fn base(&self, row: usize, group: usize) -> i32 {
        let stored = self.zero_point.map_or(self.levels.offset(&self.packing), |zero| i32::from(zero[row * self.groups() + group]));
        stored - i32::from(self.flip())
    }
    /// What codes of a weight without zero points count from in words: signed bytes have 128 added there.
    pub(super) fn base_of_words(&self) -> i32 {
        if self.signed() { 128 } else { self.packing.offset() }
    }
    /// The stored bytes of a row.
    #[inline(always)]
    fn row(&self, row: usize) -> &'a [u8] {
        let length = self.packing.row_bytes(self.columns);
        &self.bytes[row * length..][..length]
    }
    /// The codes of a row from a column on as bytes.
    #[inline(always)]
    fn unpack(&self, row: usize, column: usize, out: &mut [u8]) {
        let row = self.row(row);
        match self.packing.bits {
            8 => out.copy_from_slice(&row[column..][..out.len()]),
            4 if column.is_multiple_of(2) => {
                let bytes = &row[column / 2..];
                let (pairs, last) = out.as_chunks_mut::<2>();
                for (pair, &byte) in pairs.iter_mut().zip(bytes) {
                    *pair = [byte & 15, byte >> 4];
                }
                if let ([last], Some(byte)) = (last, bytes.get(pairs.len())) {
                    *last = byte & 15;
                }
            }
            bits => {
                let mut done = 0;
                if bits == 3 && column.is_multiple_of(8) {
                    let (words, (eights, _)) = (row[column / 8 * 3..].as_chunks::<3>().0, out.as_chunks_mut::<8>());
                    for (eight, word) in eights.iter_mut().zip(words) {
                        let word = u32::from_le_bytes([word[0], word[1], word[2], 0]);
                        for (k, code) in eight.iter_mut().enumerate() {
                            *code = (word >> (3 * k)) as u8 & 7;
                        }
                    }
                    done = 8 * words.len().min(eights.len());
                }
                for (k, code) in out.iter_mut().enumerate().skip(done) {
                    let at = (column + k) * bits as usize;
                    let word = u16::from_le_bytes([row[at / 8], row.get(at / 8 + 1).copied().unwrap_or(0)]);
                    *code = (word >> (at % 8)) as u8 & ((1 << bits) - 1);
                }
            }
        }
    }
}

/// Rows and columns of a weight.
#[derive(Clone, Copy)]
pub(super) struct WeightPart {
    pub(super) row: usize,
    pub(super) rows: usize,
    pub(super) column: usize,
    pub(super) columns: usize,
    /// columns of which each stretch is followed by zeros up to a whole quad, if there are such
    pub(super) stretch: usize,
}
impl WeightPart {
    /// Columns with those that are zero.
    pub(super) fn padded(&self) -> usize {
        if self.stretch.is_multiple_of(QUAD) { self.columns } else { self.columns / self.stretch * self.stretch.next_multiple_of(QUAD) }
    }
    /// Codes as signed bytes in blocks of a product, `[rows / 16][padded / 4][16][4]`.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn pack<'b>(
        &self,
        isa: Isa,
        weight: &CodedWeight<'_>,
        lines: &mut AlignedBuffer<u8>,
        blocks: &'b mut AlignedBuffer<i8>,
    ) -> Result<&'b [i8], ErrorKind> {
        let columns = self.padded();
        let blocks = blocks.take(self.rows.next_multiple_of(BLOCK) * columns.next_multiple_of(QUAD))?;
        let view = if weight.packing.bits == 8 && columns == self.columns {
            MatrixView { data: weight.bytes, base: (self.row * weight.columns + self.column) as isize, row_stride: 1, column_stride: weight.columns as isize }
        } else {
            let out = lines.take(self.rows * columns)?;
            dispatch(isa, UnpackedRows { weight, part: *self, out });
            MatrixView { data: out, base: 0, row_stride: 1, column_stride: columns as isize }
        };
        pack_blocks(&view, 0, self.rows, columns, weight.flip(), blocks);
        Ok(blocks)
    }
}
/// Codes of a part of a weight as bytes, row by row.
struct UnpackedRows<'a> {
    weight: &'a CodedWeight<'a>,
    part: WeightPart,
    out: &'a mut [u8],
}
impl SimdKernel for UnpackedRows<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let UnpackedRows { weight, part, out } = self;
        let (padded, slot) = (part.padded(), part.stretch.next_multiple_of(QUAD));
        for (row, out) in out.chunks_exact_mut(padded).enumerate() {
            if padded == part.columns {
                weight.unpack(part.row + row, part.column, out);
                continue;
            }
            for (g, out) in out.chunks_exact_mut(slot).enumerate() {
                let (codes, zeros) = out.split_at_mut(part.stretch);
                weight.unpack(part.row + row, part.column + g * part.stretch, codes);
                // They are xored as codes are.
                zeros.fill(weight.flip());
            }
        }
    }
}
