//! `cargo xtask bench`: the workloads that other frameworks are measured with (`adamant-bench` holds the verbs), and what
//! only this repository can do: peers, the size of a program, the time of its build.
mod attention;
mod compile_time;
mod conv;
mod elementwise;
mod gemm;
mod infer;
pub mod models;
mod peers;
mod performance;
mod precision;
mod small;
mod standing;
mod tables;
pub mod train;

use crate::{device, exit::Exit, size};
use adamant_bench::{Suite, Workload, cli};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    #[command(subcommand)]
    action: Action,
}
#[derive(clap::Subcommand)]
enum Action {
    #[command(flatten)]
    Common(cli::Verb),
    /// This project and others, sample by sample in turn
    Peers(peers::Options),
    /// docs/performance.md from records: tables with their commands
    Performance(performance::Options),
    /// Crates in the tree and the size of a program, as `cargo xtask size`
    Size(size::Options),
    /// Tables as they are, by the descriptions that are written for them, and scikit-learn on the same rows
    Tables(tables::Options),
    /// How long builds take: the first commands of a user from nothing; of a package, after a change
    CompileTime(compile_time::Options),
}

/// Runs what the command line asks for.
pub fn run(options: &Options) -> Exit {
    match &options.action {
        Action::Common(verb) => {
            verb.device().into_iter().for_each(device::build_in);
            cli::execute(verb, &suite())
        }
        Action::Peers(o) => peers::run(o, &suite()),
        Action::Performance(o) => performance::run(o),
        Action::Size(o) => size::run(o),
        Action::Tables(o) => tables::run(o),
        Action::CompileTime(o) => compile_time::run(o),
    }
}
/// What this project measures, and how the program that does is built.
pub fn suite() -> Suite {
    Suite::new("adamant", workloads, &["build", "--release", "--package", "xtask"])
}
/// Every workload: those of the document in its order, then the sizes, then what the tool judges itself with.
fn workloads() -> Vec<Workload> {
    let families =
        [gemm::workloads, conv::workloads, elementwise::workloads, small::workloads, train::workloads, infer::workloads, elementwise::sizes, gemm::sizes];
    let mut all: Vec<Workload> = families.iter().flat_map(|family| family()).collect();
    all.extend([gemm::large(), elementwise::large(), attention::workloads()].into_iter().flatten());
    all.extend([gemm::selftest(), elementwise::selftest()]);
    // The calls of a run of `peers --calls` or `--random`, for the program that it measures.
    all.extend(peers::calls::workloads());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use adamant::{DType, Device};
    use adamant_bench::{Group, Problem, Scale, sampler::Active};

    /// Each workload builds, passes its own check and runs on the reference device at small shapes.
    #[test]
    fn every_workload_is_right_at_small_shapes() {
        Device::reference().scoped(|| {
            for workload in workloads() {
                let ran = Active::start(&workload, Scale::SMALL).and_then(|mut active| active.sample(1).and_then(|_| active.check_again()));
                assert!(ran.as_ref().is_ok() || ran.as_ref().is_err_and(|p| p.is_unsupported()), "{}: {ran:?}", workload.name);
            }
        });
    }
    /// What has a form in 16 bits is right in it and rounds; what has none is not run.
    #[test]
    fn a_workload_that_runs_in_f32_and_is_called_bf16() {
        Device::reference().scoped(|| {
            let mut with = Vec::new();
            for workload in workloads() {
                for dtype in [DType::BF16, DType::F16] {
                    let started = Active::start_in(&workload, Scale::SMALL, dtype);
                    if !workload.has_precisions() {
                        assert!(matches!(&started, Err(p @ Problem::Absent(_)) if p.is_unsupported()), "{} in {dtype}", workload.name);
                        continue;
                    }
                    let places: Vec<u64> = (0..64).collect();
                    let values = |dtype| Active::start_in(&workload, Scale::SMALL, dtype)?.values(&places);
                    let low = started.and_then(|mut active| active.values(&places)).unwrap_or_else(|p| panic!("{} in {dtype}: {p}", workload.name));
                    let exact = values(DType::F32).unwrap();
                    assert_ne!(low, exact, "{} in {dtype}", workload.name);
                    // Of three steps of a network whose last layers have few numbers to norm, the first.
                    let size = exact.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
                    precision::near(dtype, &[low[0], size], &[exact[0], size]).unwrap_or_else(|p| panic!("{} in {dtype}: {p}", workload.name));
                    with.push(workload.name.clone());
                }
            }
            for name in ["gemm_f32_2048", "tiny_mlp_fwdbwd", "train_chargpt_b8", "train_resnet18_b32", "infer_minilm_b32_s128"] {
                assert!(with.iter().filter(|w| *w == name).count() == 2, "{name}");
            }
        });
    }
    #[test]
    fn names_are_unique() {
        let mut names: Vec<String> = workloads().into_iter().map(|w| w.name).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }
    #[test]
    fn a_family_that_lacks_a_decade() {
        let mut families = std::collections::BTreeMap::<String, Vec<u64>>::new();
        for w in workloads().into_iter().filter(|w| w.group == Group::Sizes) {
            let (family, _) = w.name.rsplit_once('/').unwrap();
            families.entry(family.into()).or_default().extend(w.elements);
        }
        assert!(families.len() >= 14, "{}", families.len());
        for (family, sizes) in families {
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            let decades = (*most as f64 / *least as f64).log10();
            assert!(decades >= 4.95, "{family}: {decades}");
        }
    }
    #[test]
    fn a_train_workload_without_its_memory() {
        assert!(workloads().iter().all(|w| w.memory == (w.name.starts_with("train_") && !w.name.ends_with(small::COMPILED))));
    }
}
