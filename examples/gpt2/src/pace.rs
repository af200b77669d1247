//! How fast it goes: tokens in a second, and which share of what the device can do they are.
use adamant::{Device, amp::PrecisionMode};

/// 10^12 multiplications and additions in a second of a card's matrix units on bf16 and f16, without sparsity, by a part of its name:
/// NVIDIA's data sheets of each. The first name that fits counts.
const PEAKS: &[(&str, f64)] = &[
    ("B200", 2250.0),
    ("H200", 989.4),
    ("H100 PCIe", 756.0),
    ("H100 NVL", 835.5),
    ("H100", 989.4),
    ("GH200", 989.4),
    ("A100", 311.9),
    ("L40S", 362.1),
    ("L4", 121.0),
    ("RTX 5090", 209.5),
    ("RTX 4090", 165.2),
    ("RTX 3090", 71.2),
];

/// What a token costs, and what the device could do.
pub struct Pace {
    /// operations of a token, forward and back
    pub flops: f64,
    /// operations in a second, where they are known
    pub peak: Option<f64>,
}
impl Pace {
    /// Operations of a token: 6 for each weight that multiplies it, and 12 for each feature, layer and token that attention looks at
    /// (Chowdhery et al., "PaLM", 2022, appendix B). Position embeddings multiply nothing; the table of tokens does, as the head.
    pub fn flops(parameters: usize, layers: usize, features: usize, context: usize) -> f64 {
        6.0 * (parameters - context * features) as f64 + 12.0 * layers as f64 * features as f64 * context as f64
    }
    /// The peak that was named, else that of the device's name; none in f32, which matrix units do not compute.
    pub fn peak(named: Option<f64>, device: Device, precision: PrecisionMode) -> Option<f64> {
        let known = || {
            let in_16_bits = matches!(precision, PrecisionMode::BF16 | PrecisionMode::F16);
            let info = device.info();
            in_16_bits.then(|| peak_of(&info.name)).flatten()
        };
        named.or_else(known).map(|tflops| tflops * 1e12)
    }
    /// The share of the peak, from 0 to 1.
    pub fn mfu(&self, tokens_per_second: f64) -> Option<f64> {
        self.peak.map(|peak| tokens_per_second * self.flops / peak)
    }
    /// `123456 tokens/s, MFU 41.2 %`.
    pub fn told(&self, tokens_per_second: f64) -> String {
        let share = self.mfu(tokens_per_second).map_or_else(|| "unknown".into(), |share| format!("{:.1} %", 100.0 * share));
        format!("{tokens_per_second:.0} tokens/s, MFU {share}")
    }
}
fn peak_of(name: &str) -> Option<f64> {
    PEAKS.iter().find(|(part, _)| name.contains(part)).map(|(_, tflops)| *tflops)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 854 MFLOP for each token of GPT-2 124M: llm.c's table has 41 % for 468,000 tokens/s on an H100.
    #[test]
    fn a_share_that_another_formula_gives() {
        let flops = Pace::flops(124_439_808, 12, 768, 1024);
        assert_eq!(flops, 6.0 * 123_653_376.0 + 12.0 * 12.0 * 768.0 * 1024.0);
        let pace = Pace { flops, peak: peak_of("NVIDIA H100 80GB HBM3").map(|tflops| tflops * 1e12) };
        let share = pace.mfu(468_000.0).unwrap();
        assert!((0.40..0.42).contains(&share), "{share}");
        assert_eq!(pace.told(468_000.0), "468000 tokens/s, MFU 40.5 %");
        assert_eq!(Pace { flops, peak: None }.told(10.4), "10 tokens/s, MFU unknown");
    }
    #[test]
    fn a_card_that_is_taken_for_another() {
        let peaks = ["NVIDIA L40S", "NVIDIA L4", "NVIDIA H100 PCIe", "NVIDIA H200", "NVIDIA GH200 480GB", "Somebody's"].map(peak_of);
        assert_eq!(peaks, [Some(362.1), Some(121.0), Some(756.0), Some(989.4), Some(989.4), None]);
        let device = Device::reference();
        assert_eq!(Pace::peak(Some(2.0), device, PrecisionMode::F32), Some(2e12));
        assert_eq!(Pace::peak(None, device, PrecisionMode::BF16), None);
    }
}
