//! What cuBLASLt offers for a product: algorithms, each with the workspace and the alignment it wants. One that is stubborn
//! offers nothing at times, or something that fails when it is used, as the real one may.
use super::check::{EmulatedProduct, GivenProduct, LtFactor};
use super::descriptors::{DescriptorKind, LtStatus, give};
use super::number::LtNumber;
use crate::driver::entry::calls;
use crate::driver::pointer::{InPointer, OutPointer};
use crate::driver::state::DriverState;

/// `cublasLtMatmulAlgo_t`: the caller's, so it says what it was made for.
pub(crate) type Words = [u64; 8];
/// How one begins that was made here.
const MADE_HERE: u64 = 0x0ada_ca1c_0000_0000;
/// Bytes of workspace that the split one wants.
const SPLIT_WORKSPACE: u64 = 1 << 20;

/// `cublasLtMatmulHeuristicResult_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Offered {
    words: Words,
    workspace: usize,
    state: u32,
    waves: f32,
    reserved: [i32; 4],
}
/// An algorithm.
#[derive(Debug, Clone, Copy)]
struct Algorithm {
    number: u64,
    workspace: u64,
    alignment: u64,
    /// What it answers when it is used.
    fails: u32,
}
/// Vectors of 16 bytes and sums in pieces; vectors of 16 bytes; of 4; single elements.
const ALGORITHMS: &[Algorithm] = &[
    Algorithm { number: 1, workspace: SPLIT_WORKSPACE, alignment: 16, fails: 0 },
    Algorithm { number: 2, workspace: 0, alignment: 16, fails: 0 },
    Algorithm { number: 3, workspace: 0, alignment: 4, fails: 0 },
    Algorithm { number: 4, workspace: 0, alignment: 1, fails: 0 },
];
impl Algorithm {
    fn words(self, key: u64) -> Words {
        [MADE_HERE | self.number, key, self.workspace, self.alignment, u64::from(self.fails), 0, 0, 0]
    }
    fn of(words: &Words) -> Option<(Algorithm, u64)> {
        let number = words[0] & 0xffff_ffff;
        let known = words[0] & !0xffff_ffff == MADE_HERE && ALGORITHMS.iter().any(|a| a.number == number);
        known.then_some((Algorithm { number, workspace: words[2], alignment: words[3], fails: words[4] as u32 }, words[1]))
    }
}

calls! { exports, LtStatus;
    fn cublasLtMatmulAlgoGetHeuristic(state, handle: u64, product: u64, a: u64, b: u64, c: u64, d: u64, preference: u64, count: i32, offers: OutPointer<Offered>, given: OutPointer<i32>) {
        state.known_handle(handle)?;
        given.needed().map_err(|_| LtStatus::INVALID_VALUE)?;
        let capacity = usize::try_from(count).ok().filter(|c| *c > 0).ok_or(LtStatus::INVALID_VALUE)?;
        offers.needed().map_err(|_| LtStatus::INVALID_VALUE)?;
        give(given, 0)?;
        let preferred = state.descriptor(preference, DescriptorKind::Preference)?.clone();
        // It may have to ask the card, which a capture forbids.
        state.refuse_while_capturing().map_err(|_| LtStatus::NOT_SUPPORTED)?;
        let asked = state.asked(product, [a, b, c, d])?;
        let alignment = [5, 6, 7, 8].map(|which| u64::from(preferred.word(which))).into_iter().min().unwrap_or(1);
        let alignment = alignment.min(asked.alignment());
        let wanted = match asked.a.number {
            n if n.is_fp8() => 16,
            LtNumber::I8 => 4,
            _ => 1,
        };
        let fits = |x: &&Algorithm| x.workspace <= preferred.get(1) && (wanted..=alignment).contains(&x.alignment);
        let mut chosen: Vec<Algorithm> = ALGORITHMS.iter().filter(fits).copied().collect();
        state.make_stubborn(&mut chosen);
        if chosen.is_empty() {
            return Err(LtStatus::NOT_SUPPORTED);
        }
        chosen.truncate(capacity);
        let key = asked.key();
        let made: Vec<Offered> = chosen
            .iter()
            .map(|x| Offered { words: x.words(key), workspace: x.workspace as usize, state: 0, waves: 1.0, reserved: [0; 4] })
            .collect();
        offers.fill(capacity, &made).map_err(|_| LtStatus::INVALID_VALUE)?;
        give(given, made.len() as i32)
    }
    fn cublasLtMatmulAlgoCheck(state, handle: u64, product: u64, a: u64, b: u64, c: u64, d: u64, words: InPointer<Words>, result: OutPointer<Offered>) {
        state.known_handle(handle)?;
        let asked = state.asked(product, [a, b, c, d])?;
        let words = words.get().map_err(|_| LtStatus::INVALID_VALUE)?;
        let (algorithm, _) = Algorithm::of(&words).ok_or(LtStatus::INVALID_VALUE)?;
        let words = algorithm.words(asked.key());
        give(result, Offered { words, workspace: algorithm.workspace as usize, state: 0, waves: 1.0, reserved: [0; 4] })
    }
    fn cublasLtMatmulAlgoGetIds(state, handle: u64, compute: u32, scale: u32, a: u32, b: u32, c: u32, d: u32, count: i32, numbers: OutPointer<i32>, given: OutPointer<i32>) {
        state.known_handle(handle)?;
        let capacity = usize::try_from(count).ok().filter(|c| *c > 0).ok_or(LtStatus::INVALID_VALUE)?;
        let all: Vec<i32> = ALGORITHMS.iter().map(|a| a.number as i32).collect();
        numbers.fill(capacity, &all).map_err(|_| LtStatus::INVALID_VALUE)?;
        give(given, all.len().min(capacity) as i32)
    }
    fn cublasLtMatmulAlgoConfigGetAttribute(state, words: InPointer<Words>, which: u32, value: OutPointer<i32>, bytes: usize, written: OutPointer<usize>) {
        let words = words.get().map_err(|_| LtStatus::INVALID_VALUE)?;
        let (algorithm, _) = Algorithm::of(&words).ok_or(LtStatus::INVALID_VALUE)?;
        // The number; tiles, splits and stages are the same for all.
        let found = match which {
            0 => algorithm.number as i32,
            2 => if algorithm.workspace > 0 { 2 } else { 1 },
            1 | 3..=8 => 0,
            _ => return Err(LtStatus::INVALID_VALUE),
        };
        if bytes != 4 {
            return Err(LtStatus::INVALID_VALUE);
        }
        written.set_if_asked(4);
        give(value, found)
    }
}

impl DriverState {
    pub fn known_handle(&self, handle: u64) -> Result<(), LtStatus> {
        if self.library.handles.contains(&handle) { Ok(()) } else { Err(LtStatus::NOT_INITIALIZED) }
    }
    /// A product without addresses.
    fn asked(&self, product: u64, layouts: [u64; 4]) -> Result<EmulatedProduct, LtStatus> {
        let one = LtFactor::Value(1.0);
        self.product(&GivenProduct { product, layouts, addresses: [0; 4], alpha: one, beta: one })
    }
    /// Takes offers away, or makes some fail, where that is asked for.
    fn make_stubborn(&mut self, chosen: &mut Vec<Algorithm>) {
        if !self.options.stubborn {
            return;
        }
        if self.random.below(4) == 0 {
            chosen.clear();
        }
        for algorithm in chosen {
            if self.random.below(3) == 0 {
                let answer = if self.random.below(2) == 0 { LtStatus::NOT_SUPPORTED } else { LtStatus::EXECUTION_FAILED };
                algorithm.fails = answer.0;
            }
        }
    }
    /// Refuses an algorithm that was made for another product, or lacks what it wants.
    pub fn check_algorithm(&self, words: InPointer<Words>, product: &EmulatedProduct) -> Result<(), LtStatus> {
        let Ok(words) = words.get() else {
            // None is given: one that wants nothing is taken.
            return Ok(());
        };
        let (algorithm, key) = Algorithm::of(&words).ok_or(LtStatus::INVALID_VALUE)?;
        let (workspace, capacity) = product.workspace;
        if key != product.key() || algorithm.workspace > capacity || algorithm.workspace > 0 && (workspace == 0 || !workspace.is_multiple_of(16)) {
            return Err(LtStatus::INVALID_VALUE);
        }
        if product.alignment() < algorithm.alignment {
            return Err(LtStatus::INVALID_VALUE);
        }
        if algorithm.fails == 0 { Ok(()) } else { Err(LtStatus(algorithm.fails)) }
    }
}
