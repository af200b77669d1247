//! Networks drawn from seeds, with all couplings: without channels they compute what they compute with these at zero. `cargo xtask
//! quant prune` has more of them.
#![allow(clippy::unwrap_used)]

use adamant_backend_cpu as _;
use adamant_core as core;
use adamant_nn as nn;
use adamant_quant::prune;
use std::collections::BTreeMap;

#[path = "pruned_nets/compare.rs"]
mod compare;
#[path = "pruned_nets/drawn.rs"]
mod drawn;
use compare::{CLOSE, PrunedFault, compare as compared};

#[test]
fn a_coupling_that_is_overlooked_changes_outputs_or_gradients() {
    let (mut couplings, mut most, mut removed, mut wide): (BTreeMap<&str, (usize, usize)>, _, _, _) = (BTreeMap::new(), 0f64, 0, 0);
    for seed in 0..60 {
        let net = compared(seed, PrunedFault::None).unwrap();
        removed += usize::from(net.removed > 0);
        wide += usize::from(net.is_wide);
        most = most.max(net.outputs).max(net.gradients);
        for (name, shrunk) in net.couplings {
            let (met, fewer) = couplings.entry(name).or_default();
            *met += 1;
            *fewer += usize::from(shrunk);
        }
    }
    println!("{most:e} apart at most, {wide} in f64; {couplings:?}");
    assert!(most <= CLOSE && wide <= 2 && removed > 50, "{removed} of 60 became smaller");
    for (name, (met, fewer)) in &couplings {
        // A norm over all channels needs them all, and what the network returns stays.
        assert!(*fewer > 0 || ["layer norm", "rms norm"].contains(name), "{name}: of {met} none became fewer");
    }
    assert!(couplings.len() >= 20, "{couplings:?}");
}
#[test]
fn a_fault_in_a_pruned_net_is_seen() {
    for fault in [PrunedFault::Order, PrunedFault::Announced, PrunedFault::Count, PrunedFault::Number] {
        let mut found = 0;
        for seed in 0..8 {
            match compared(seed, fault) {
                Err(_) => found += 1,
                Ok(net) => assert!(!net.planted, "{fault:?} in net {seed} is not seen"),
            }
        }
        assert!(found >= 4, "{fault:?}: seen in {found} of 8");
    }
}
