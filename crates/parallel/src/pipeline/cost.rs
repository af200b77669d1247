//! Where a list of layers is cut: so that the stretch that costs most costs as little as can be.
use adamant_core::{Error, ErrorKind, Meta, Result, Tensor, cost, grad::no_grad, graph::Graph};
use adamant_nn::Module;
use std::ops::Range;

/// What each layer costs for an input like this one: the floating-point operations of its captured forward pass. Nothing runs.
///
/// ```
/// use adamant_core::Tensor;
/// use adamant_nn::{Linear, Relu, Sequential};
/// use adamant_parallel::pipeline::{cut_by_cost, layer_costs};
/// # adamant_core::Device::reference().make_current();
/// let layers = Sequential::new().add(Linear::no_bias(4, 8)?).add(Relu::new()).add(Linear::no_bias(8, 8)?).into_layers();
/// let costs = layer_costs(&layers, &Tensor::zeros([2, 4]))?;
/// assert_eq!(costs, [129.0, 17.0, 257.0]);
/// assert_eq!(cut_by_cost(&costs, 2)?, [0..2, 2..3]);
/// # Ok::<(), adamant_core::Error>(())
/// ```
///
/// # Errors
/// What a layer's forward pass returns.
#[track_caller]
pub fn layer_costs(layers: &[(String, Box<dyn Module>)], example: &Tensor) -> Result<Vec<f64>> {
    let mut meta: Meta = example.try_meta()?;
    let mut costs = Vec::new();
    for (_, layer) in layers {
        let graph = no_grad(|| Graph::capture(meta.device, &[meta], |x| x.first().map_or_else(|| Ok(Vec::new()), |x| Ok(vec![layer.forward(x)?]))))?;
        let mut flops = 0u64;
        for node in &graph.nodes {
            flops = flops.saturating_add(cost::of_node(&graph, node)?.flops);
        }
        // A layer that only moves data is not for nothing.
        costs.push(flops as f64 + 1.0);
        let Some(output) = graph.outputs.first() else { continue };
        meta = graph.meta(*output).map_err(|kind| Error::new("pipeline", kind))?;
    }
    Ok(costs)
}
/// Cuts layers into so many stretches of one layer at least, so that the largest sum of costs is as small as can be; of two such cuts the one whose
/// stretches end earlier.
///
/// # Errors
/// More stretches than layers; none; costs that are no finite numbers from 0 on.
#[track_caller]
pub fn cut_by_cost(costs: &[f64], stretches: usize) -> Result<Vec<Range<usize>>> {
    let refuse = |text: String| Err(Error::new("pipeline", ErrorKind::Argument(text)));
    let n = costs.len();
    if stretches == 0 || stretches > n {
        return refuse(format!("{n} layers cannot be cut into {stretches} stretches of one layer at least"));
    }
    if let Some((k, cost)) = costs.iter().enumerate().find(|(_, cost)| !cost.is_finite() || **cost < 0.0) {
        return refuse(format!("layer {k} costs {cost}: costs are finite numbers from 0 on"));
    }
    let mut before = vec![0.0; n + 1];
    for (k, cost) in costs.iter().enumerate() {
        before[k + 1] = before[k] + cost;
    }
    // best[s][k]: the largest sum where the first k layers are s + 1 stretches, and where the last of these begins.
    let mut best: Vec<Vec<(f64, usize)>> = vec![(0..=n).map(|k| (before[k], 0)).collect()];
    for s in 1..stretches {
        let last = &best[s - 1];
        let of = |k: usize| {
            let from = |at: usize| (last[at].0.max(before[k] - before[at]), at);
            (s..k).map(from).min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, 0))
        };
        let row: Vec<(f64, usize)> = (0..=n).map(of).collect();
        best.push(row);
    }
    let mut bounds = vec![n];
    for s in (1..stretches).rev() {
        let end = bounds[bounds.len() - 1];
        bounds.push(best[s][end].1);
    }
    bounds.push(0);
    bounds.reverse();
    Ok(bounds.windows(2).map(|b| b[0]..b[1]).collect())
}
