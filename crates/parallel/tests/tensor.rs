//! Pieces of layers: loss and gradients of one process, on any number of ranks, by every way to cut.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by a panic")]
#[path = "ranks/ranks.rs"]
mod ranks;

use adamant_core::{
    DType, Device, Result, Tensor,
    functional::{CrossEntropyOptions, Reduction, cross_entropy},
    op::rank_parts,
};
use adamant_nn::{Criterion, Dropout, Embedding, LayerNorm, Linear, Module, MultiheadAttention, Relu, Sequential, Walk, init, manual_seed};
use adamant_parallel::{
    Mesh, MeshAxis, MeshShape,
    tensor::{
        ColumnLinear,
        ParallelStyle::{self, Apart, Column, ColumnGathered, Gather, Heads, Row, Scatter, Vocabulary},
        RowLinear, Sharding, TensorOptions, VocabularyCrossEntropy, VocabularyEmbedding, VocabularyLossOptions, parallelize, parallelize_with, rank_stream,
    },
};
use ranks::{Gpt, all, alone, classes, device, difference, each, loss_of, numbers, read, sequential, tolerance};

const BLOCKS: [(&str, ParallelStyle); 3] = [("blocks*.self_attn", Heads), ("blocks*.linear1", Column), ("blocks*.linear2", Row)];
const DROPS: [(&str, ParallelStyle); 1] = [("blocks*.dropout", Apart)];
/// Slices of the sequence between the pieces.
const SLICES: [(&str, ParallelStyle); 5] =
    [("wpe", Scatter), ("blocks*.norm?", Apart), ("blocks*.dropout1", Apart), ("blocks*.dropout2", Apart), ("lnf", Apart)];

fn mesh(group: &adamant_core::op::Group) -> Result<Mesh> {
    Mesh::new(group, MeshShape { tensor: group.size as usize, ..MeshShape::default() })
}
/// How a head is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
enum HeadCut {
    Vocabulary,
    Gathered,
    Whole,
}
fn styles(head: HeadCut, sequence: bool) -> Vec<(&'static str, ParallelStyle)> {
    let mut styles: Vec<_> = BLOCKS.into_iter().chain(DROPS).collect();
    if sequence {
        styles.extend(SLICES);
    }
    match head {
        HeadCut::Vocabulary => styles.extend([("wte", Vocabulary), ("head", Column)]),
        HeadCut::Gathered => styles.push(("head", ColumnGathered)),
        HeadCut::Whole if sequence => styles.push(("lnf", Gather)),
        HeadCut::Whole => {}
    }
    styles
}
/// Loss and whole gradients on a rank.
fn on_rank(group: &adamant_core::op::Group, gpt: &Gpt, head: HeadCut, sequence: bool, rows: usize) -> Result<(f64, ranks::Numbers, Sharding)> {
    let (model, mesh) = (gpt.model()?, mesh(group)?);
    let options = TensorOptions { sequence_axis: sequence.then_some(1) };
    let sharding = parallelize_with(&model, &mesh, &styles(head, sequence), options)?;
    let (ids, target) = gpt.ids(rows, gpt.seed);
    let logits = model.forward(&ids)?;
    let loss = match head {
        HeadCut::Vocabulary => VocabularyCrossEntropy::new(gpt.vocabulary, mesh.group(MeshAxis::Tensor)).forward(&logits, &target)?,
        _ => loss_of(&logits, &target)?,
    };
    let grads = loss.backward_keep()?;
    let whole = sharding.gradients(&model, &grads)?.into_iter().map(|(path, g)| Ok((path, read(&g)?))).collect::<Result<_>>()?;
    Ok((read(&loss)?[0], whole, sharding))
}
#[test]
fn a_gpt_in_pieces_has_the_gradients_of_one_process() {
    device().make_current();
    for (k, head) in [HeadCut::Vocabulary, HeadCut::Gathered, HeadCut::Whole].into_iter().enumerate() {
        for sequence in [false, true] {
            for dtype in [DType::F32, DType::F64] {
                for size in [1, 2, 4] {
                    // An untied head of 28 rows can be cut evenly.
                    let tied = head != HeadCut::Gathered;
                    let gpt = Gpt {
                        dtype,
                        tied,
                        vocabulary: if tied { 27 } else { 28 },
                        bias: size != 4 || k == 0,
                        seed: 3 + k as u64 * 5 + size as u64,
                        ..Gpt::default()
                    };
                    let model = gpt.model().unwrap();
                    let (ids, target) = gpt.ids(3, gpt.seed);
                    let (loss, gradients) = alone(&model, &loss_of(&model.forward(&ids).unwrap(), &target).unwrap()).unwrap();
                    for (rank, (got, whole, sharding)) in all(size, |group| on_rank(group, &gpt, head, sequence, 3)).into_iter().enumerate() {
                        let (off, by) = ((got - loss).abs(), difference(&whole, &gradients));
                        let case = format!("{head:?}, sequence {sequence}, {dtype}, rank {rank} of {size}");
                        assert!(off <= tolerance(dtype) && by <= tolerance(dtype), "{case}: loss off by {off:e}, gradients by {by:e}");
                        assert_eq!(sharding.cut().is_empty(), size == 1, "{case}");
                    }
                }
            }
        }
    }
}
#[test]
fn single_layers_in_pieces_compute_what_the_whole_layer_does() {
    device().make_current();
    for size in [1, 2, 3, 4] {
        for seed in 0..3u64 {
            let layers = || -> Result<(Linear, Linear, Embedding)> {
                manual_seed(seed);
                Ok((Linear::new(5, 12)?, Linear::new(12, 5)?, Embedding::with(7 + seed as usize, 6, Some(2))?))
            };
            let (x, h, ids) = (numbers(seed, &[4, 5], DType::F32), numbers(seed, &[4, 12], DType::F32), classes(seed, &[9], 7 + seed as usize));
            let weight = numbers(seed + 9, &[4, 12], DType::F32);
            let (column, row, table) = layers().unwrap();
            let (tx, th) = (x.tracked(), h.tracked());
            let y = column.forward(&tx).unwrap();
            let z = row.forward(&th).unwrap();
            let rows = table.forward(&ids).unwrap();
            let loss = (&y * &weight).sum(..) + z.square().sum(..) + rows.square().sum(..);
            let (_, mut want) = alone(&(column, row, table).0, &loss).unwrap();
            let grads = loss.backward_keep().unwrap();
            want.push(("x".into(), read(grads.get(&tx).unwrap()).unwrap()));
            want.push(("h".into(), read(grads.get(&th).unwrap()).unwrap()));
            want.push(("y".into(), read(&y).unwrap()));
            want.push(("z".into(), read(&z).unwrap()));
            want.push(("rows".into(), read(&rows).unwrap()));
            for gathered in [false, true] {
                let ran = all(size, |group| {
                    let (column, row, table) = layers()?;
                    let column = if gathered { ColumnLinear::gathered(column, group)? } else { ColumnLinear::new(column, group)? };
                    let (row, table) = (RowLinear::new(row, group)?, VocabularyEmbedding::new(table, group)?);
                    let (tx, th) = (x.tracked(), h.tracked());
                    let y = column.forward(&tx)?;
                    let (own, n) = (group.rank as usize * 12 / size, 12 / size);
                    // Some ranks' row layer is given its piece, some the whole.
                    let z = row.forward(&if gathered { th.clone() } else { th.narrow(1, own, n) })?;
                    let rows = table.forward(&ids)?;
                    let of_y = if gathered {
                        (&y * &weight).sum(..)
                    } else {
                        adamant_parallel::collective::all_reduce(&(&y * weight.narrow(1, own, n)).sum(..), group, adamant_core::op::RankUse::Alike)
                    };
                    let grads = (of_y + z.square().sum(..) + rows.square().sum(..)).backward_keep()?;
                    let mut got: ranks::Numbers =
                        column.sharding().gradients(&column, &grads)?.into_iter().map(|(n, g)| Ok((n, read(&g)?))).collect::<Result<_>>()?;
                    got.push(("x".into(), read(grads.get(&tx).unwrap())?));
                    let of_h = grads.get(&th).unwrap();
                    let of_h = if gathered || size == 1 {
                        of_h.clone()
                    } else {
                        adamant_parallel::collective::all_reduce(of_h, group, adamant_core::op::RankUse::Alike)
                    };
                    got.push(("h".into(), read(&of_h)?));
                    let y = if gathered { y } else { adamant_parallel::collective::all_gather(&y, 1, group, adamant_core::op::RankUse::Alike) };
                    got.push(("y".into(), read(&y)?));
                    got.push(("z".into(), read(&z)?));
                    got.push(("rows".into(), read(&rows)?));
                    let padding = read(&table.sharding().gather(&table.layer().weight, grads.of(&table.layer().weight.cell()).unwrap())?)?;
                    assert!(padding[12..18].iter().all(|g| *g == 0.0) && padding.iter().any(|g| *g != 0.0), "the padding row is not trained");
                    Ok(got)
                });
                for got in ran {
                    assert!(difference(&got, &want) < 2e-6, "{size} ranks, seed {seed}, gathered {gathered}: {}", difference(&got, &want));
                }
            }
        }
    }
}
#[test]
fn the_loss_of_pieces_is_cross_entropy() {
    device().make_current();
    let mut cases = 0;
    for size in [1, 2, 3, 4] {
        for (k, reduction) in [Reduction::Mean, Reduction::Sum, Reduction::None].into_iter().enumerate() {
            for smoothing in [0.0, 0.1, 1.0] {
                for (dtype, shape) in [(DType::F32, vec![5usize]), (DType::F64, vec![2, 3]), (DType::F32, vec![])] {
                    let n = 4 + k + size;
                    let full: Vec<usize> = shape.iter().copied().chain([n]).collect();
                    let logits = numbers(k as u64, &full, dtype) * 30.0;
                    let mut target = classes(7 + k as u64, &shape, n).to_vec::<i64>().unwrap();
                    if target.len() > 2 {
                        target[1] = -100;
                    }
                    let target = Tensor::from_vec(target, shape.clone());
                    let rows: usize = shape.iter().product();
                    let tracked = logits.tracked();
                    let options = CrossEntropyOptions { reduction, label_smoothing: smoothing, ..Default::default() };
                    let want = cross_entropy(&tracked.reshape([rows, n]), &target.reshape([rows]), &options);
                    let gradient = read(want.sum(..).backward().unwrap().get(&tracked).unwrap()).unwrap();
                    let want = read(&want).unwrap();
                    for (got, of_logits) in all(size, |group| {
                        let own = rank_parts(n, group.rank as usize, size);
                        let x = logits.narrow(-1, own.start, own.len()).tracked();
                        let options = VocabularyLossOptions { reduction, label_smoothing: smoothing, ..Default::default() };
                        let loss = VocabularyCrossEntropy::with(n, group, options).forward(&x, &target)?;
                        let g = read(loss.sum(..).backward_keep()?.get(&x).unwrap())?;
                        let want: Vec<f64> = (0..rows).flat_map(|r| gradient[r * n + own.start..r * n + own.end].to_vec()).collect();
                        Ok((read(&loss)?, (g, want)))
                    }) {
                        let off = got
                            .iter()
                            .zip(&want)
                            .chain(of_logits.0.iter().zip(&of_logits.1))
                            .map(|(a, b)| (a - b).abs() / b.abs().max(1.0))
                            .fold(0.0, f64::max);
                        assert!(got.len() == want.len() && off <= tolerance(dtype), "{size} ranks, {reduction:?}, smoothing {smoothing}, {full:?}: {off:e}");
                        cases += 1;
                    }
                }
            }
        }
    }
    assert!(cases > 250);
    // An index that no rank has.
    for told in all(2, |group| {
        let loss = VocabularyCrossEntropy::new(6, group).forward(&Tensor::zeros([2, 3]), &Tensor::from_slice(&[1i64, 6], [2]))?;
        let table = VocabularyEmbedding::new(Embedding::new(5, 3)?, group)?;
        let rows = table.forward(&Tensor::from_slice(&[5i64], [1]))?;
        Ok([loss.to_vec::<f32>().err().map(|e| e.to_string()).unwrap_or_default(), rows.to_vec::<f32>().err().map(|e| e.to_string()).unwrap_or_default()])
    }) {
        assert!(told[0].contains('6') && told[1].contains('5'), "{told:?}");
    }
}
#[test]
fn dropout_differs_between_pieces_and_is_alike_outside() {
    let run = |group: &adamant_core::op::Group| {
        manual_seed(5);
        let model = Sequential::new()
            .add_named("outside", Dropout::new(0.5)?)
            .add_named("fc", Linear::no_bias(8, 64)?)
            .add_named("inside", Dropout::new(0.5)?)
            .add_named("proj", Linear::no_bias(64, 8)?);
        parallelize(&model, &mesh(group)?, &[("fc", Column), ("inside", Apart), ("proj", Row)])?;
        let mut masks = Vec::new();
        let mut kept = Vec::new();
        let inside = model.get_submodule("inside")?;
        let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let note = seen.clone();
        inside.site()?.register_forward_hook(move |_, inputs, outputs| {
            note.lock().unwrap().push((inputs[0].clone(), outputs[0].clone()));
            Ok(None)
        })?;
        for _ in 0..2 {
            let y = model.forward(&Tensor::ones([4, 8]))?;
            kept.push(y.to_vec::<f32>()?);
        }
        for (x, y) in seen.lock().unwrap().iter() {
            masks.push(x.to_vec::<f32>()?.iter().zip(y.to_vec::<f32>()?).map(|(x, y)| *x != 0.0 && y == 0.0).collect::<Vec<bool>>());
        }
        let behind = init::uniform([6], 0.0, 1.0)?.to_vec::<f32>()?;
        let own = rank_stream(group, || init::uniform([6], 0.0, 1.0)?.to_vec::<f32>())?;
        Ok((masks, kept, behind, own, init::uniform([6], 0.0, 1.0)?.to_vec::<f32>()?))
    };
    for size in [2, 4] {
        let ran = all(size, run);
        for (a, first) in ran.iter().enumerate() {
            assert_ne!(first.0[0], first.0[1], "the counter goes on");
            for second in &ran[..a] {
                assert!(first.0[0] != second.0[0] && first.0[1] != second.0[1], "pieces are dropped by one pattern");
                assert_eq!((&first.1, &first.2, &first.4), (&second.1, &second.2, &second.4), "what is alike outside");
                assert_ne!(first.3, second.3);
            }
        }
        assert_eq!(
            all(size, run).iter().map(|r| r.0.clone()).collect::<Vec<_>>(),
            ran.iter().map(|r| r.0.clone()).collect::<Vec<_>>(),
            "one seed, the same masks"
        );
    }
}
/// A layer that failed in between leaves the generator where it was by its next call.
#[test]
fn a_layer_that_fails_does_not_leave_the_generator_shifted() {
    for differs in all(2, |group| {
        let draw = || -> Result<Vec<f32>> {
            let _ = init::uniform([2], 0.0, 1.0)?;
            init::uniform([2], 0.0, 1.0)?.to_vec::<f32>()
        };
        manual_seed(9);
        let norm = LayerNorm::new([4])?;
        parallelize(&norm, &mesh(group)?, &[("", Apart)])?;
        assert!(norm.forward(&Tensor::ones([2, 3])).is_err());
        norm.forward(&Tensor::ones([2, 4]))?;
        let got = draw()?;
        manual_seed(9);
        Ok(got != draw()?)
    }) {
        assert!(!differs);
    }
}
#[test]
fn state_dicts_are_of_whole_tensors() {
    device().make_current();
    let gpt = Gpt::default();
    let want = gpt.model().unwrap().state_dict();
    let want: Vec<(String, Vec<f64>)> = want.into_iter().map(|(n, t)| (n, read(&t).unwrap())).collect();
    for size in [2, 4] {
        let ran = all(size, |group| {
            let model = gpt.model()?;
            let sharding = parallelize(&model, &mesh(group)?, &styles(HeadCut::Vocabulary, false))?;
            let state = sharding.state_dict(&model)?;
            let first: ranks::Numbers = state.iter().map(|(n, t)| Ok((n.clone(), read(t)?))).collect::<Result<_>>()?;
            let moved: Vec<(String, Tensor)> = state.iter().map(|(n, t)| (n.clone(), t * 2.0)).collect();
            sharding.load_state_dict(&model, &moved)?;
            let second: ranks::Numbers = sharding.state_dict(&model)?.iter().map(|(n, t)| Ok((n.clone(), read(t)?))).collect::<Result<_>>()?;
            let mut wrong = state.clone();
            wrong[0].1 = Tensor::zeros([3, 3]);
            assert!(sharding.load_state_dict(&model, &wrong).unwrap_err().to_string().contains("wte"));
            Ok((first, second))
        });
        for (first, second) in ran {
            assert_eq!(first, want);
            assert!(second.iter().zip(&want).all(|((_, a), (_, b))| a.iter().zip(b).all(|(a, b)| *a == 2.0 * b)));
        }
    }
}
#[test]
fn what_cannot_be_cut_is_named_and_nothing_changes() {
    let model = || -> Result<Sequential> {
        manual_seed(1);
        let table = Embedding::new(3, 6)?;
        let head = Linear::tied(&table.weight)?;
        Ok(Sequential::new()
            .add_named("table", table)
            .add_named("fc", Linear::new(6, 9)?)
            .add_named("act", Relu::new())
            .add_named("proj", Linear::new(9, 6)?)
            .add_named("norm", LayerNorm::new([6])?)
            .add_named("head", head))
    };
    let cases: &[(&[(&str, ParallelStyle)], &str)] = &[
        (&[("fc", Column)], "`fc` has 9 output features, of which 4 ranks cannot each have as many"),
        (&[("fc", ColumnGathered)], "9 output features"),
        (&[("proj", Row)], "`proj` has 9 input features"),
        (&[("table", Vocabulary), ("head", Column)], "`table` has 3 rows, and 4 ranks"),
        (&[("norm", Column)], "`norm` is of the kind LayerNorm, and Column is for layers of the kind Linear"),
        (&[("norm", Vocabulary)], "layers of the kind Embedding"),
        (&[("fc", Heads)], "layers of the kind MultiheadAttention"),
        (&[("nothing.*", Row)], "no module has a path like `nothing.*`"),
        (&[("fc", Column), ("f*", Row)], "`fc` is to be Column and Row"),
        (&[("norm", Scatter)], "which axis that is was not said"),
    ];
    for told in each(4, |group| {
        let mesh = mesh(group)?;
        for (styles, want) in cases {
            let model = model()?;
            let before = model.state_dict();
            let told = parallelize(&model, &mesh, styles).unwrap_err().to_string();
            assert!(told.contains(want), "{told}");
            for ((_, a), (_, b)) in before.iter().zip(model.state_dict()) {
                assert_eq!(read(a)?, read(&b)?);
            }
        }
        let attention = MultiheadAttention::new(6, 3)?;
        assert!(parallelize(&attention, &mesh, &[("", Heads)]).unwrap_err().to_string().contains("3 heads, of which 4 ranks"));
        Ok(())
    }) {
        told.unwrap();
    }
    for told in each(2, |group| {
        let model = model()?;
        let told = parallelize(&model, &mesh(group)?, &[("table", Vocabulary)]).unwrap_err().to_string();
        assert!(told.contains("`head.weight` is tied to `table.weight`, which is cut"), "{told}");
        // Another number of logits than this rank's.
        let loss = VocabularyCrossEntropy::new(5, group).forward(&Tensor::zeros([2, 5]), &Tensor::from_slice(&[1i64, 2], [2]));
        assert!(loss.unwrap_err().to_string().contains("the logits of the classes"));
        Ok(())
    }) {
        told.unwrap();
    }
}
#[test]
fn a_rank_that_does_not_come_is_an_error() {
    let told = each(2, |group| {
        let mesh = mesh(group)?;
        let model = ranks::perceptron(1, DType::F32)?;
        parallelize(&model, &mesh, &[("fc", Column), ("proj", Row)])?;
        if group.rank == 1 {
            return Err(adamant_core::Error::new("test", adamant_core::ErrorKind::Argument("planted".into())));
        }
        model.forward(&Tensor::ones([2, 6]))?.to_vec::<f32>()
    });
    let told = told.into_iter().next().unwrap().unwrap_err().to_string();
    assert!(told.contains("planted") || told.contains("rank 1"), "{told}");
    let _ = (Device::reference(), sequential(Vec::new()));
}
