//! Which instruction set the kernels use: found once, or forced by the environment.
//!
//! Must not know what a kernel computes. A forced set that the CPU lacks is an error, never a silent fallback:
//! a benchmark or a bit-comparison that ran on another set than the one asked for would prove nothing.

use std::sync::OnceLock;

/// An instruction set for which the crate has kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// Plain Rust, one lane. Runs everywhere; the safe twin the others are compared with.
    Scalar,
    /// AVX2, FMA and F16C: 8 lanes of f32.
    Avx2,
    /// AVX-512 F, BW, DQ and VL (and what [`Isa::Avx2`] needs): 16 lanes of f32.
    Avx512,
}

/// The environment variable that forces an instruction set.
pub const ISA_VARIABLE: &str = "ADAMANT_ISA";

impl Isa {
    /// All sets, narrowest first.
    pub const ALL: [Isa; 3] = [Isa::Scalar, Isa::Avx2, Isa::Avx512];

    /// The widest set this CPU has. Each kernel asks whether its set is there, so the features are looked at once.
    pub fn detect() -> Isa {
        static WIDEST: OnceLock<Isa> = OnceLock::new();
        *WIDEST.get_or_init(|| Isa::ALL.into_iter().rfind(|isa| isa.is_detected()).unwrap_or(Isa::Scalar))
    }

    /// Whether this CPU can run kernels of this set.
    pub fn is_available(self) -> bool {
        self <= Isa::detect()
    }
    fn is_detected(self) -> bool {
        match self {
            Isa::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                Isa::Avx2.is_detected()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::Avx512 => false,
        }
    }

    /// The set in use: the one `ADAMANT_ISA` names, else [`Isa::detect`].
    ///
    /// # Errors
    /// The variable holds an unknown word, or a set that this CPU lacks.
    pub fn try_current() -> Result<Isa, String> {
        static CURRENT: OnceLock<Result<Isa, String>> = OnceLock::new();
        CURRENT
            .get_or_init(|| match std::env::var(ISA_VARIABLE) {
                Ok(word) => Isa::parse(&word),
                Err(std::env::VarError::NotPresent) => Ok(Isa::detect()),
                Err(err) => Err(format!("{ISA_VARIABLE}: {err}")),
            })
            .clone()
    }

    /// As [`Isa::try_current`], for callers past the start-up check: a bad variable gives [`Isa::Scalar`],
    /// the one set that is always sound. The backend calls `try_current` when it opens and reports the error there.
    pub fn current() -> Isa {
        Isa::try_current().unwrap_or(Isa::Scalar)
    }

    /// Reads the word of `ADAMANT_ISA` and checks that this CPU has the set.
    ///
    /// # Errors
    /// An unknown word, or a set that this CPU lacks.
    pub fn parse(word: &str) -> Result<Isa, String> {
        let isa = match word.trim().to_ascii_lowercase().as_str() {
            "scalar" => Isa::Scalar,
            "avx2" => Isa::Avx2,
            "avx512" => Isa::Avx512,
            other => {
                return Err(format!("{ISA_VARIABLE}={other} is not an instruction set: use scalar, avx2 or avx512, or unset it"));
            }
        };
        if isa.is_available() { Ok(isa) } else { Err(format!("{ISA_VARIABLE}={word}: this CPU lacks it; the widest it has is {:?}", Isa::detect())) }
    }
}

/// Instructions that multiply bytes, which a set has or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteIsa {
    /// Plain Rust.
    Scalar,
    /// [`Isa::Avx2`]: `vpmaddwd` of widened bytes.
    Avx2,
    /// [`Isa::Avx512`]: the same.
    Avx512,
    /// [`Isa::Avx512`] and VNNI: `vpdpbusd`.
    Avx512Vnni,
}
impl ByteIsa {
    #[cfg(test)]
    pub(crate) const ALL: [ByteIsa; 4] = [ByteIsa::Scalar, ByteIsa::Avx2, ByteIsa::Avx512, ByteIsa::Avx512Vnni];

    /// The best that goes with a set.
    pub(crate) fn of(isa: Isa) -> ByteIsa {
        static HAS_VNNI: OnceLock<bool> = OnceLock::new();
        match isa {
            Isa::Avx512 if *HAS_VNNI.get_or_init(|| ByteIsa::Avx512Vnni.is_available()) => ByteIsa::Avx512Vnni,
            Isa::Avx512 => ByteIsa::Avx512,
            Isa::Avx2 => ByteIsa::Avx2,
            Isa::Scalar => ByteIsa::Scalar,
        }
    }

    /// Whether this CPU has them.
    pub(crate) fn is_available(self) -> bool {
        match self {
            ByteIsa::Scalar => true,
            ByteIsa::Avx2 => Isa::Avx2.is_available(),
            ByteIsa::Avx512 => Isa::Avx512.is_available(),
            #[cfg(target_arch = "x86_64")]
            ByteIsa::Avx512Vnni => Isa::Avx512.is_available() && is_x86_feature_detected!("avx512vnni"),
            #[cfg(not(target_arch = "x86_64"))]
            ByteIsa::Avx512Vnni => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_gives_its_set_or_an_error() {
        assert_eq!(Isa::parse("scalar"), Ok(Isa::Scalar));
        assert!(Isa::parse("sse9").is_err());
        for isa in Isa::ALL {
            let word = format!("{isa:?}");
            assert_eq!(Isa::parse(&word).is_ok(), isa.is_available(), "{word}");
        }
    }
}
