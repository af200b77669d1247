//! Parameters that several stretches of a pipeline have: a table that is also the head. Each stretch has a gradient of it; what all hold
//! afterwards is their sum, added as one process would add it.
use super::transfer::{MessageKind, MessageLabel, receive, send};
use adamant_core::{Result, Tensor, op::Group};
use adamant_nn::{Module, Param};
use std::{collections::HashMap, ops::Range};

/// One of them.
pub(super) struct SharedParam {
    /// as this stage has it, if it does
    pub param: Option<Param>,
    /// the stretches that have it, from the first
    pub stretches: Vec<usize>,
}
/// Gradients by shared parameter, stretch and micro-batch.
pub(super) type SharedGradients = HashMap<(usize, usize, usize), Tensor>;

/// What several stretches of layers have.
pub(super) fn shared_params(layers: &[(String, Box<dyn Module>)], stretches: &[Range<usize>], is_here: impl Fn(usize) -> bool) -> Vec<SharedParam> {
    let mut all: Vec<(Param, Vec<usize>)> = Vec::new();
    for (number, stretch) in stretches.iter().enumerate() {
        for (_, layer) in layers.iter().take(stretch.end).skip(stretch.start) {
            for param in layer.parameters() {
                match all.iter_mut().find(|(known, _)| known.same(&param)) {
                    Some((_, places)) if places.last() == Some(&number) => {}
                    Some((_, places)) => places.push(number),
                    None => all.push((param, vec![number])),
                }
            }
        }
    }
    let several = all.into_iter().filter(|(_, stretches)| stretches.len() > 1);
    several.map(|(param, stretches)| SharedParam { param: stretches.iter().any(|k| is_here(*k)).then_some(param), stretches }).collect()
}
/// Adds the gradients of shared parameters over stretches and micro-batches. Of each parameter the stage of its last stretch adds, and gives the
/// others the sum: in the order of parameters, micro-batches and stretches, which all stages go through alike.
#[track_caller]
pub(super) fn add_shared(shared: &[SharedParam], mut own: SharedGradients, micros: usize, group: &Group) -> Result<Vec<(Param, Tensor)>> {
    let (stage, stages) = (group.rank as usize, group.size as usize);
    let mut sums = Vec::new();
    for (number, param) in shared.iter().enumerate() {
        let adds = param.stretches.last().map_or(0, |last| last % stages);
        let mut sum: Option<Tensor> = None;
        for micro in 0..micros {
            // The walk back meets the last layers first.
            let mut of_micro: Option<Tensor> = None;
            for stretch in param.stretches.iter().rev() {
                let (holds, label) = (stretch % stages, MessageLabel { kind: MessageKind::Shared, micro, number: *stretch });
                let found = own.remove(&(number, *stretch, micro));
                let term = match (stage == adds, stage == holds) {
                    (true, true) => found,
                    (true, false) => receive(group, holds, label)?,
                    (false, true) => {
                        send(group, adds, label, found.as_ref())?;
                        None
                    }
                    (false, false) => None,
                };
                of_micro = added(of_micro, term);
            }
            sum = added(sum, of_micro);
        }
        let mut others: Vec<usize> = param.stretches.iter().map(|k| k % stages).filter(|k| *k != adds).collect();
        others.sort_unstable();
        others.dedup();
        for other in others {
            let label = MessageLabel { kind: MessageKind::Sum, micro: 0, number };
            if stage == adds {
                send(group, other, label, sum.as_ref())?;
            } else if stage == other {
                sum = receive(group, adds, label)?;
            }
        }
        if let (Some(param), Some(sum)) = (&param.param, sum) {
            sums.push((param.clone(), sum));
        }
    }
    Ok(sums)
}
pub(super) fn added(sum: Option<Tensor>, term: Option<Tensor>) -> Option<Tensor> {
    match (sum, term) {
        (Some(sum), Some(term)) => Some(sum + term),
        (sum, term) => sum.or(term),
    }
}
