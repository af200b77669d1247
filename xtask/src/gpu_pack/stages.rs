//! What the pack looks at: stages in their order, the seconds of each, and the figures that it must tell with what is asked of them.
use super::lines::FigureTarget::{self, AtLeast, AtMost, Told};

/// Seconds of all stages together, and of the first.
pub const WHOLE: u32 = 480;
#[cfg(test)]
pub const FIRST: u32 = 60;
/// Bytes of all files of the pack, but for NVRTC.
pub const LARGEST: u64 = 64 << 20;

/// A part of the script with a limit of its own.
pub struct PackStage {
    pub name: &'static str,
    /// seconds
    pub limit: u32,
    pub figures: &'static [AskedFigure],
}
/// A figure that a stage must tell.
///
/// Those of workloads are named so: `W` is the rate of the workload W in its unit, `W/PEER` its peer's time over ours, `W/copy` its bytes in a
/// second over those of a copy, `W/bandwidth` its tokens over those that a copy's speed allows, and `S_right` counts wrong results.
#[derive(Clone, Copy, Debug)]
pub struct AskedFigure {
    pub name: &'static str,
    pub unit: &'static str,
    pub target: FigureTarget,
    /// an emulated card has none
    pub of_cards: bool,
}
const fn any(name: &'static str, unit: &'static str, target: FigureTarget) -> AskedFigure {
    AskedFigure { name, unit, target, of_cards: false }
}
const fn card(name: &'static str, unit: &'static str, target: FigureTarget) -> AskedFigure {
    AskedFigure { name, unit, target, of_cards: true }
}

/// All of them.
pub const STAGES: &[PackStage] = &[
    PackStage {
        name: "first",
        limit: 60,
        figures: &[any("self_test", "paths_off", AtMost(0.0)), any("kernels_cpu", "kernels", AtLeast(20.0)), any("gpt2_first_steps", "nats", AtMost(-0.01))],
    },
    PackStage {
        name: "gemm",
        limit: 45,
        figures: &[
            any("gemm_right", "wrong", AtMost(0.0)),
            card("gemm_bf16_4096", "TFLOP/s", Told),
            card("gemm_bf16_4096/torch", "x", AtLeast(0.97)),
            card("gemm_bf16_8192", "TFLOP/s", Told),
            card("gemm_bf16_8192/torch", "x", AtLeast(0.97)),
            card("gemm_f16_8192", "TFLOP/s", Told),
            card("gemm_f16_8192/torch", "x", AtLeast(0.97)),
        ],
    },
    PackStage {
        name: "elementwise",
        limit: 50,
        figures: &[
            any("elementwise_right", "wrong", AtMost(0.0)),
            card("copy_64m", "GB/s", Told),
            card("add_64m/copy", "x", AtLeast(0.9)),
            card("gelu_xwb_64m/copy", "x", AtLeast(0.9)),
            card("sum_last_64m/copy", "x", AtLeast(0.9)),
            card("softmax_65536x1024/copy", "x", AtLeast(0.9)),
            card("layernorm_65536x1024/copy", "x", AtLeast(0.9)),
            card("xent_4096x50257_fwdbwd/copy", "x", AtLeast(0.9)),
        ],
    },
    PackStage {
        name: "attention",
        limit: 50,
        figures: &[
            any("attention_right", "wrong", AtMost(0.0)),
            card("attention_bf16_b16_h12_t1024_d64_causal_fwd", "TFLOP/s", Told),
            card("attention_bf16_b16_h12_t1024_d64_causal_fwd/torch", "x", AtLeast(0.9)),
            card("attention_bf16_b16_h12_t1024_d64_causal_fwd/torch-cudnn", "x", Told),
            card("attention_bf16_b16_h12_t1024_d64_causal_fwdbwd/torch", "x", AtLeast(0.9)),
            card("attention_bf16_b16_h12_t1024_d64_causal_fwdbwd/torch-cudnn", "x", Told),
            card("attention_bf16_b4_h16_t4096_d128_fwd", "TFLOP/s", Told),
            card("attention_bf16_b4_h16_t4096_d128_fwd/torch", "x", AtLeast(0.9)),
            card("attention_bf16_b4_h16_t4096_d128_fwd/torch-cudnn", "x", Told),
            card("attention_bf16_b4_h16_t4096_d128_fwdbwd", "TFLOP/s", Told),
            card("attention_bf16_b4_h16_t4096_d128_fwdbwd/torch", "x", AtLeast(0.9)),
            card("attention_bf16_b4_h16_t4096_d128_fwdbwd/torch-cudnn", "x", Told),
        ],
    },
    PackStage {
        name: "gpt2",
        limit: 105,
        figures: &[
            any("gpt2_learns", "nats", AtMost(-0.01)),
            card("gpt2_124m", "tokens/s", AtLeast(468_000.0)),
            card("gpt2_124m_mfu", "share", Told),
            card("gpt2_124m/torch-compile", "x", AtLeast(1.0)),
        ],
    },
    PackStage {
        name: "small",
        limit: 45,
        figures: &[
            any("small_right", "wrong", AtMost(0.0)),
            card("train_mlp_b128/torch-graphs", "x", AtLeast(1.0)),
            card("train_lenet_b128/torch-graphs", "x", AtLeast(1.0)),
            card("train_chargpt_b8/torch-graphs", "x", AtLeast(1.0)),
        ],
    },
    PackStage {
        name: "decode",
        limit: 25,
        figures: &[
            any("decode_right", "wrong", AtMost(0.0)),
            card("gpt2_decode64_bf16", "tokens/s", Told),
            card("gpt2_decode64_bf16/bandwidth", "x", AtLeast(0.8)),
        ],
    },
    PackStage {
        name: "copies",
        limit: 15,
        figures: &[
            any("copies_right", "wrong", AtMost(0.0)),
            card("copy_up", "GB/s", Told),
            card("copy_up/bus", "x", AtLeast(0.9)),
            card("copy_down", "GB/s", Told),
            card("copy_down/bus", "x", AtLeast(0.9)),
            card("overlap", "share", AtLeast(0.8)),
        ],
    },
    PackStage {
        name: "tf32",
        limit: 10,
        figures: &[any("tf32_off_error", "relative", AtMost(1e-6)), any("tf32_on_error", "relative", AtMost(1e-3)), any("tf32_on/off", "x", AtLeast(10.0))],
    },
    PackStage {
        name: "sanitizer",
        limit: 30,
        figures: &[card("sanitizer_memcheck", "errors", AtMost(0.0)), card("sanitizer_racecheck", "errors", AtMost(0.0))],
    },
    PackStage { name: "emulator", limit: 30, figures: &[card("kernels_emulator", "kernels", AtLeast(20.0))] },
    PackStage { name: "records", limit: 5, figures: &[card("records", "records", AtLeast(1.0))] },
];
/// The stage of a name.
pub fn named(name: &str) -> Option<&'static PackStage> {
    STAGES.iter().find(|stage| stage.name == name)
}
/// A figure of a name, of any stage.
pub fn asked(name: &str) -> Option<&'static AskedFigure> {
    STAGES.iter().flat_map(|stage| stage.figures).find(|figure| figure.name == name)
}
/// `first:60 gemm:45 ...`, for the script.
pub fn written() -> String {
    STAGES.iter().map(|stage| format!("{}:{}", stage.name, stage.limit)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_that_take_longer_than_is_promised_or_have_one_name() {
        assert!(STAGES.iter().map(|s| s.limit).sum::<u32>() <= WHOLE);
        assert!(STAGES[0].limit <= FIRST && STAGES.iter().all(|s| !s.figures.is_empty() && s.limit > 0));
        let mut names: Vec<&str> = STAGES.iter().flat_map(|s| s.figures.iter().map(|f| f.name).chain([s.name])).collect();
        names.retain(|name| *name != "records");
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(names.iter().all(|name| !name.contains(char::is_whitespace)));
    }
    /// What the figures name is a workload.
    #[test]
    fn a_figure_of_no_workload() {
        let suite = crate::bench::suite();
        let there: Vec<String> = (suite.workloads)().into_iter().map(|w| w.name).collect();
        for figure in ["gemm", "elementwise", "attention", "small", "decode"].iter().filter_map(|s| named(s)).flat_map(|s| s.figures) {
            let workload = figure.name.split('/').next().unwrap_or_default();
            assert!(workload.ends_with("_right") || there.iter().any(|w| w == workload), "{workload}");
        }
    }
}
