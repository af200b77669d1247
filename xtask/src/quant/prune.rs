//! Pruning. Networks that are drawn from seeds, with everything that layers are joined by: without channels they compute what they
//! compute with these at zero, forward and backward, and are as small as announced. Trained models: how much faster they are without
//! channels and what that costs; zeros that stay through training, a resume and a file.
mod trained;

#[path = "../../../crates/quant/tests/pruned_nets/compare.rs"]
mod compare;
#[path = "../../../crates/quant/tests/pruned_nets/drawn.rs"]
mod drawn;

use super::PruneOptions;
use crate::exit::Exit;
// As the networks' files name the crates.
use adamant as core;
use adamant::{nn, quant::prune};
use compare::{CLOSE, ComparedNet, PrunedFault};
pub use drawn::Draws;
use std::{collections::BTreeMap, time::Instant};

/// Couplings of which nothing can leave: a norm over all channels needs them all.
const WHOLE: [&str; 2] = ["layer norm", "rms norm"];

pub fn run(options: &PruneOptions) -> Result<Exit, String> {
    if options.plant {
        return Ok(planted(options));
    }
    let nets = nets(options)?;
    let trained = trained::run(options)?;
    Ok(match (nets, trained) {
        (false, _) | (_, Exit::Failed) => Exit::Failed,
        (true, other) => other,
    })
}
/// Every fault, in nets until one has something to plant it in: a fault that is found ends the chore as a failure.
fn planted(options: &PruneOptions) -> Exit {
    let mut all = true;
    for (fault, told) in [
        (PrunedFault::Order, "channels of one parameter in another order"),
        (PrunedFault::Announced, "a channel that stays announced in the place of one that left"),
        (PrunedFault::Count, "one element more announced"),
        (PrunedFault::Number, "a number of one parameter 0.1 % off"),
    ] {
        let tried = (0..options.n as u64).map(|k| compare::compare(options.seed + k, fault)).find(|net| net.as_ref().map_or(true, |net| net.planted));
        let found = matches!(tried, Some(Err(_)));
        all &= found;
        println!("{told}: {}", if found { "found" } else { "not found" });
    }
    // As with any fault that is found, but for one that is not, which is no failure of what was planted.
    if all { Exit::Failed } else { Exit::Passed }
}
fn nets(options: &PruneOptions) -> Result<bool, String> {
    let started = Instant::now();
    let (mut outputs, mut gradients, mut removed, mut smaller, mut wide, mut failed) = (0f64, 0f64, 0usize, 0, 0, 0);
    let mut couplings: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for seed in options.seed..options.seed + options.n as u64 {
        match compare::compare(seed, PrunedFault::None) {
            Ok(net) => {
                let ComparedNet { outputs: o, gradients: g, removed: r, couplings: of, is_wide, .. } = net;
                wide += usize::from(is_wide);
                (outputs, gradients, removed, smaller) = (outputs.max(o), gradients.max(g), removed + r, smaller + usize::from(r > 0));
                for (name, is_fewer) in of {
                    let (met, fewer) = couplings.entry(name).or_default();
                    (*met, *fewer) = (*met + 1, *fewer + usize::from(is_fewer));
                }
            }
            Err(text) => {
                failed += 1;
                println!("{text}");
            }
        }
    }
    for (name, (met, fewer)) in &couplings {
        println!("  {name}: {met} times, {fewer} times with fewer channels");
    }
    let idle: Vec<&&str> = couplings.iter().filter(|(name, (met, fewer))| *met >= 5 && *fewer == 0 && !WHOLE.contains(name)).map(|(name, _)| name).collect();
    let passed = failed == 0 && idle.is_empty();
    println!(
        "{} {} nets, {smaller} of them smaller by {removed} elements together: outputs {outputs:.1e} and gradients {gradients:.1e} apart at most (at most {CLOSE:e}; {wide} of them in f64, to 1e-9, where f32 rounds more), counts as announced, {failed} failed{}, {:.1} s",
        if passed { "passed" } else { "failed" },
        options.n,
        if idle.is_empty() { String::new() } else { format!(", never fewer channels of {idle:?}") },
        started.elapsed().as_secs_f64()
    );
    Ok(passed)
}
