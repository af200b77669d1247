//! Codes one by one, between the words that folders pack them in and the bytes of a [`PackedWeight`].
use adamant_core::{
    DType, Device, Tensor,
    composite::packed::{CodeLevels, Packing},
    functional::PackedWeight,
};

/// Codes of a weight `[out, columns]`, none of them below 0. A number is `(code - zero) · scale` of its group.
pub(super) struct RawCodes {
    pub bits: u32,
    pub out: usize,
    pub columns: usize,
    /// columns of a group, if not all of a row
    pub group: Option<usize>,
    /// `[out, columns]`; the groups are neighbouring columns
    pub codes: Vec<u8>,
    /// `[out, groups]`
    pub zeros: Vec<u8>,
    /// likewise
    pub scales: Vec<f32>,
    /// does f16 hold the scales?
    pub half: bool,
    /// where the columns stand in the weight, if elsewhere
    pub order: Option<Vec<i32>>,
}
/// The code of number `at` in words that codes of so many bits fill, the first in the lowest bits.
pub(super) fn code_at(word: impl Fn(usize) -> u32, bits: u32, at: usize) -> u8 {
    let place = at * bits as usize;
    let (first, shift) = (word(place / 32), (place % 32) as u32);
    let mut code = first >> shift;
    if shift + bits > 32 {
        code |= word(place / 32 + 1) << (32 - shift);
    }
    (code & ((1 << bits) - 1)) as u8
}
/// Puts a code into its place among words of zeros.
pub(super) fn put_code(mut word: impl FnMut(usize, u32), bits: u32, at: usize, code: u8) {
    let place = at * bits as usize;
    let shift = (place % 32) as u32;
    word(place / 32, u32::from(code) << shift);
    if shift + bits > 32 {
        word(place / 32 + 1, u32::from(code) >> (32 - shift));
    }
}
impl RawCodes {
    pub(super) fn groups(&self) -> usize {
        self.scales.len() / self.out.max(1)
    }
    /// As a weight on a device. Zero points that are all the middle are not stored; a scale of 0 becomes 1 with codes of 0.
    pub(super) fn packed(mut self, device: Device) -> Result<PackedWeight, String> {
        let groups = self.groups();
        let middle = 1u8 << (self.bits - 1);
        let size = self.columns / groups.max(1);
        for (at, scale) in self.scales.iter_mut().enumerate().filter(|(_, scale)| **scale == 0.0) {
            *scale = 1.0;
            let zero = self.zeros.get(at).copied().unwrap_or(middle);
            self.codes.iter_mut().skip(at * size).take(size).for_each(|code| *code = zero);
        }
        let symmetric = self.zeros.iter().all(|zero| *zero == middle);
        let packing = Packing { bits: self.bits, group: self.group, symmetric };
        let shape = adamant_core::Shape::new(&[self.out, self.columns]).map_err(|e| e.to_string())?;
        packing.check(&shape).map_err(|e| e.to_string())?;
        let codes = match (self.bits, symmetric) {
            (8, true) => Tensor::from_vec_on(self.codes.iter().map(|code| (code ^ 0x80) as i8).collect::<Vec<_>>(), shape, device),
            (8, false) => Tensor::from_vec_on(self.codes, shape, device),
            (bits, _) => {
                let width = packing.row_bytes(self.columns);
                let mut bytes = vec![0u8; self.out * width];
                for (bytes, codes) in bytes.chunks_mut(width).zip(self.codes.chunks(self.columns)) {
                    for (at, code) in codes.iter().enumerate() {
                        let (place, wide) = (at * bits as usize, u16::from(*code) << (at * bits as usize % 8));
                        let [low, high] = wide.to_le_bytes();
                        bytes[place / 8] |= low;
                        if let Some(next) = bytes.get_mut(place / 8 + 1) {
                            *next |= high;
                        }
                    }
                }
                Tensor::from_vec_on(bytes, [self.out, width], device)
            }
        };
        let scale = Tensor::from_vec_on(self.scales, [self.out, groups], device);
        let scale = if self.half { scale.cast(DType::F16) } else { scale };
        let zero_point = (!symmetric).then(|| Tensor::from_vec_on(self.zeros, [self.out, groups], device));
        let told = |e: adamant_core::Error| e.kind().to_string();
        let weight = PackedWeight::new(packing, shape, &codes, &scale, zero_point.as_ref()).map_err(told)?;
        match self.order {
            Some(order) => weight.with_order(&Tensor::from_vec_on(order, [self.columns], device)).map_err(told),
            None => Ok(weight),
        }
    }
    /// Of a weight of codes.
    pub(super) fn of(weight: &PackedWeight) -> Result<RawCodes, String> {
        let Packing { bits, group, symmetric } = weight.packing();
        let shape = weight.shape();
        let [out, columns] = shape[..] else { return Err(format!("it is no matrix but {shape}")) };
        if weight.levels() != CodeLevels::Even || weight.minimum().is_some() {
            return Err("its codes are not evenly spaced about a zero point".into());
        }
        let told = |e: adamant_core::Error| e.kind().to_string();
        let bytes = weight.codes().to_bytes().map_err(told)?;
        let codes = match (bits, symmetric) {
            (8, true) => bytes.iter().map(|code| code ^ 0x80).collect(),
            (8, false) => bytes,
            _ => {
                let width = weight.packing().row_bytes(columns);
                let code = |row: &[u8], at: usize| {
                    let place = at * bits as usize;
                    let wide = u16::from_le_bytes([row[place / 8], row.get(place / 8 + 1).copied().unwrap_or(0)]);
                    (wide >> (place % 8)) as u8 & ((1 << bits) - 1)
                };
                bytes.chunks(width.max(1)).flat_map(|row| (0..columns).map(move |at| code(row, at))).collect()
            }
        };
        let scales = weight.scale().to_vec_as::<f32>().map_err(told)?;
        let zeros = match weight.zero_point() {
            Some(zeros) => zeros.to_vec::<u8>().map_err(told)?,
            None => vec![1 << (bits - 1); scales.len()],
        };
        let order = weight.order().map(|order| order.to_vec::<i32>()).transpose().map_err(told)?;
        let half = weight.scale().dtype().map_err(told)? == DType::F16;
        Ok(RawCodes { bits, out, columns, group, codes, zeros, scales, half, order })
    }
    /// Scales as a folder has them: `[groups, out]`, f16 if that holds them.
    pub(super) fn scales_by_group(&self) -> Tensor {
        let groups = self.groups();
        let scales = (0..self.scales.len()).map(|at| self.scales[at % self.out * groups + at / self.out]).collect::<Vec<f32>>();
        let exact = scales.iter().all(|s| adamant_core::f16::from_f32(*s).to_f32() == *s);
        let scales = Tensor::from_vec(scales, [groups, self.out]);
        if exact { scales.cast(DType::F16) } else { scales }
    }
}
