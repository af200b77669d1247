//! The rules of collectives: gradients are transposes over all ranks, tangents and batches those of the values; sums along one
//! tree have the same bits on any number of ranks.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by a panic")]
#[path = "proofs/meeting.rs"]
mod meeting;

use adamant_core::{
    Arg, Cell, Device, Op, Result, Tensor, communicator,
    op::{CollectiveKind, Group, RankUse, ReduceOp, rank_parts, tree_nodes},
    transform::{jvp, vmap},
};
use meeting::meeting;

fn apply(kind: CollectiveKind, group: &Group, x: &Tensor) -> Tensor {
    Tensor::apply(Op::Collective { kind, group: group.clone() }, Arg::None, &[x])
}
/// Runs `f` for each of so many ranks on a thread of its own.
fn each<R: Send>(size: usize, f: impl Fn(usize, &Group) -> Result<R> + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let f = &f;
        let run = |(rank, group)| scope.spawn(move || Device::reference().scoped(|| f(rank, &communicator::group(&group)).unwrap()));
        let ranks: Vec<_> = meeting(size).into_iter().enumerate().map(run).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}
/// How a loss changes with `x`.
fn gradient(x: &Tensor, loss: impl Fn(&Tensor) -> Tensor) -> Result<Tensor> {
    let cell = Cell::new(x, true)?;
    let grads = loss(&cell.get()).backward()?;
    Ok(grads.of(&cell).unwrap().clone())
}
/// Numbers of a rank's own, f64, of which no two are equal.
fn own(rank: usize, seed: usize, shape: &[usize]) -> Tensor {
    Tensor::from_vec(numbers(rank, seed, shape.iter().product()), shape)
}
fn numbers(rank: usize, seed: usize, n: usize) -> Vec<f64> {
    (0..n).map(|k| ((rank * 31 + k * 17 + seed * 7) as f64 * 0.618_033_988_749).fract() - 0.5).collect()
}
const SUM: ReduceOp = ReduceOp::Sum;
fn kinds(size: usize) -> Vec<(CollectiveKind, Option<RankUse>)> {
    let mut kinds = vec![(CollectiveKind::ReduceScatter { reduce: SUM, parts: 0 }, None), (CollectiveKind::AllToAll, None), (CollectiveKind::Barrier, None)];
    for used in [RankUse::Alike, RankUse::Apart] {
        let of = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min].map(|reduce| CollectiveKind::AllReduce { reduce, parts: 0, used });
        kinds.extend(of.map(|kind| (kind, Some(used))));
        kinds.push((CollectiveKind::AllGather { used }, Some(used)));
        kinds.push((CollectiveKind::Broadcast { root: size - 1, used }, Some(used)));
    }
    kinds
}

/// The sum over ranks of how the loss changes with what the rank puts in, along one direction: by gradients, and by tangents.
#[test]
fn gradients_are_transposes_over_all_ranks() {
    for size in 1..=4 {
        for (kind, used) in kinds(size) {
            let ran = each(size, |rank, group| {
                let shape = [size * 2, 3];
                let (x, direction) = (own(rank, 1, &shape), own(rank, 2, &shape));
                let (made, moved) = jvp(|x: Tensor| apply(kind, group, &x), x.clone(), direction.clone());
                // What all ranks hold alike is weighed alike.
                let alike = used == Some(RankUse::Alike);
                let weights = own(if alike { 0 } else { rank }, 3, &made.shape()?);
                let gradient = gradient(&x, |x| (apply(kind, group, x) * &weights).sum(..))?;
                let forward = if alike && rank > 0 { 0.0 } else { (moved * weights).sum(..).item::<f64>()? };
                Ok((forward, (gradient * direction).sum(..).item::<f64>()?))
            });
            let (forward, backward) = ran.iter().fold((0.0f64, 0.0f64), |(f, b), (rf, rb)| (f + rf, b + rb));
            assert!((forward - backward).abs() < 1e-12, "{kind:?} on {size} ranks: {forward} forward, {backward} backward");
            assert!(forward != 0.0, "{kind:?} on {size}: nothing moved");
        }
    }
}
/// A value that all ranks hold and each uses in its own way.
#[test]
fn what_all_hold_alike_gets_the_gradients_of_all() {
    for size in 1..=4 {
        let gradients = each(size, |rank, group| {
            gradient(&own(0, 5, &[3]), |w| (apply(CollectiveKind::Replicate, group, w) * own(rank, 6, &[3])).sum(..))?.to_vec::<f64>()
        });
        let want: Vec<f64> = (0..3).map(|k| (0..size).map(|rank| numbers(rank, 6, 3)[k]).sum()).collect();
        for got in gradients {
            assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-12), "{got:?} {want:?}");
        }
    }
}
#[test]
fn examples_are_exchanged_one_by_one() {
    for (kind, _) in kinds(3) {
        each(3, |rank, group| {
            let stack = own(rank, 8, &[4, 3, 2]);
            let at_once = vmap(|x: Tensor| apply(kind, group, &x))(stack.clone()).to_vec::<f64>()?;
            let one_by_one: Vec<Vec<f64>> = (0..4).map(|k| apply(kind, group, &stack.select(0, k)).to_vec()).collect::<Result<_>>()?;
            assert_eq!(at_once, one_by_one.concat(), "{kind:?}");
            Ok(())
        });
    }
}
#[test]
fn what_is_sent_has_no_gradient() {
    let refused = each(2, |rank, group| {
        let x = Cell::new(&own(rank, 9, &[2]), true)?.get();
        let kind = if rank == 0 { CollectiveKind::Send { to: 1 } } else { CollectiveKind::Receive { from: 0 } };
        let y = apply(kind, group, &x);
        y.materialize()?;
        Ok(y.sum(..).backward().err().map(|e| e.to_string()).unwrap_or_default())
    });
    for told in refused {
        assert!(told.contains("has no gradient"), "{told}");
    }
}
/// Added in halves, of which the left one is a power of two: written here once more, from the definition.
fn halved(values: &[f32]) -> f32 {
    if let [one] = values {
        return *one;
    }
    let (left, right) = values.split_at(values.len().next_power_of_two() / 2);
    halved(left) + halved(right)
}
#[test]
fn sums_of_parts_have_one_tree_on_any_number_of_ranks() {
    let of_part = |part: usize| numbers(part, 11, 5).into_iter().map(|v| v as f32).collect::<Vec<f32>>();
    let mut differ_by_rank_order = 0;
    for parts in 1..=13usize {
        let all: Vec<Vec<f32>> = (0..parts).map(of_part).collect();
        let want: Vec<u32> = (0..5).map(|k| halved(&all.iter().map(|p| p[k]).collect::<Vec<f32>>()).to_bits()).collect();
        let in_order: Vec<u32> = (0..5).map(|k| all.iter().map(|p| p[k]).sum::<f32>().to_bits()).collect();
        differ_by_rank_order += usize::from(want != in_order);
        for size in 1..=parts.min(6) {
            let got = each(size, |rank, group| {
                let node =
                    |node: std::ops::Range<usize>| (0..5).map(|k| halved(&all[node.clone()].iter().map(|p| p[k]).collect::<Vec<f32>>())).collect::<Vec<f32>>();
                let nodes: Vec<Vec<f32>> = tree_nodes(parts, rank, size).map(node).collect();
                let x = Tensor::from_vec(nodes.concat(), [nodes.len(), 5]);
                let kind = CollectiveKind::AllReduce { reduce: SUM, parts: parts as u32, used: RankUse::Alike };
                let sum = apply(kind, group, &x);
                // Each node is one term: its gradient is the sum's.
                let gradient = gradient(&x, |x| (apply(kind, group, x) * Tensor::from_vec(vec![1f32, 2.0, 3.0, 4.0, 5.0], [5])).sum(..))?;
                assert_eq!(gradient.to_vec::<f32>()?, [1f32, 2.0, 3.0, 4.0, 5.0].repeat(nodes.len()));
                Ok(sum.to_vec::<f32>()?.into_iter().map(f32::to_bits).collect::<Vec<u32>>())
            });
            for (rank, got) in got.iter().enumerate() {
                assert_eq!(got, &want, "{parts} parts, rank {rank} of {size}");
            }
            // Block b is that sum times 2^b, which changes no bit but the exponent's; each block's gradient comes back to each node.
            each(size, |rank, group| {
                let blocks = |node: std::ops::Range<usize>| -> Vec<f32> {
                    let of = |k: usize| halved(&all[node.clone()].iter().map(|p| p[k]).collect::<Vec<f32>>());
                    (0..size).flat_map(|b| (0..5).map(move |k| (b, k))).map(|(b, k)| of(k) * (1u32 << b) as f32).collect()
                };
                let nodes: Vec<Vec<f32>> = tree_nodes(parts, rank, size).map(blocks).collect();
                let x = Tensor::from_vec(nodes.concat(), [nodes.len(), 5 * size]);
                let kind = CollectiveKind::ReduceScatter { reduce: SUM, parts: parts as u32 };
                let got: Vec<u32> = apply(kind, group, &x).to_vec::<f32>()?.into_iter().map(f32::to_bits).collect();
                let scaled: Vec<u32> = want.iter().map(|bits| (f32::from_bits(*bits) * (1u32 << rank) as f32).to_bits()).collect();
                assert_eq!(got, scaled, "{parts} parts, block of rank {rank} of {size}");
                let gradient = gradient(&x, |x| (apply(kind, group, x) * (rank as f32 + 1.0)).sum(..))?;
                let of_blocks: Vec<f32> = (0..size).flat_map(|b| [b as f32 + 1.0; 5]).collect();
                assert_eq!(gradient.to_vec::<f32>()?, of_blocks.repeat(nodes.len()));
                Ok(())
            });
        }
    }
    assert!(differ_by_rank_order > 5, "the numbers do not tell one order from another");
}
#[test]
fn nodes_are_the_largest_that_a_rank_holds_whole() {
    for parts in 1..=70usize {
        for size in 1..=parts.min(20) {
            let mut at = 0;
            for rank in 0..size {
                let held = rank_parts(parts, rank, size);
                let nodes: Vec<_> = tree_nodes(parts, rank, size).collect();
                assert_eq!((nodes[0].start, nodes[nodes.len() - 1].end), (held.start, held.end));
                for node in nodes {
                    assert_eq!(node.start, at);
                    at = node.end;
                    let width = node.len().next_power_of_two();
                    assert!(node.start % width == 0 && (node.len() == width || node.end == parts), "{node:?} of {parts}");
                    // The node above it is not held whole.
                    let above = node.start / (2 * width) * (2 * width);
                    let is_other = (above, (above + 2 * width).min(parts)) != (node.start, node.end);
                    let whole = is_other && above >= held.start && (above + 2 * width).min(parts) <= held.end;
                    assert!(!whole || width >= parts, "{node:?} of {parts} parts on rank {rank} of {size}");
                }
            }
            assert_eq!(at, parts);
        }
    }
}
#[test]
fn shapes_that_do_not_go_together() {
    let group = communicator::group(&meeting(3)[1]);
    Device::reference().make_current();
    let x = own(0, 1, &[4, 2]);
    let all = |used| CollectiveKind::AllReduce { reduce: SUM, parts: 8, used };
    for (kind, told) in [
        (CollectiveKind::AllToAll, "axis 0 is cut into 3 blocks of one size"),
        (CollectiveKind::ReduceScatter { reduce: SUM, parts: 0 }, "axis 0 is cut into 3 blocks"),
        (CollectiveKind::ReduceScatter { reduce: ReduceOp::Prod, parts: 0 }, "sum, maximum or minimum"),
        (CollectiveKind::ReduceScatter { reduce: SUM, parts: 2 }, "2 parts on 3 ranks"),
        (CollectiveKind::ReduceScatter { reduce: SUM, parts: 8 }, "axis 0 are the 2 nodes that rank 1 of 3 holds of 8 parts"),
        (all(RankUse::Alike), "axis 0 are the 2 nodes that rank 1 of 3 holds of 8 parts"),
        (CollectiveKind::AllReduce { reduce: SUM, parts: 2, used: RankUse::Alike }, "2 parts on 3 ranks"),
        (CollectiveKind::Broadcast { root: 3, used: RankUse::Alike }, "there is no rank 3 among 3"),
        (CollectiveKind::Send { to: 3 }, "there is no rank 3 among 3"),
        (CollectiveKind::Receive { from: 1 }, "rank 1 sends nothing to itself"),
    ] {
        let error = apply(kind, &group, &x).to_vec::<f64>().unwrap_err().to_string();
        assert!(error.contains(told), "{kind:?}: {error}");
    }
    let flags = Tensor::from_vec(vec![true, false], [2]);
    let kind = CollectiveKind::AllReduce { reduce: SUM, parts: 0, used: RankUse::Alike };
    assert!(apply(kind, &group, &flags).to_vec::<bool>().unwrap_err().to_string().contains("bool"));
}
