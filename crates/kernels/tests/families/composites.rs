//! Drawn cases of composites that have a skeleton of their own: rows (softmax, norms, cross entropy) and attention, with
//! their backwards, against their bodies on the reference.
use super::cases::{Case, Maker, STRANGER, device};
use adamant_conformance::{
    data::{Spread, download, draw, upload},
    tolerance,
};
use adamant_core::{
    Compound, Device,
    composite::{InTensors, Keyed, keyed},
};
use adamant_ir::{
    DType, HostArray, Shape, TensorType,
    composite::{
        OperandSet,
        attention::{Attention, AttentionBackward},
        loss::{CrossEntropy, CrossEntropyBackward, Reduction},
        norm::{Norm, NormBackward, Over},
        softmax::{LogSoftmax, LogSoftmaxBackward, Softmax, SoftmaxBackward},
    },
    kernel::KernelKind,
};
use adamant_kernels::{LaunchTarget, skeleton::takes_rows};

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

fn on_reference(composite: &Keyed, inputs: &[HostArray]) -> Result<Vec<HostArray>, String> {
    let device = Device::reference();
    let all = device.scoped(|| {
        let tensors: Vec<_> = inputs.iter().map(|a| upload(a, device)).collect();
        composite.body(&tensors)?.iter().map(download).collect::<Result<Vec<_>, _>>()
    });
    all.map_err(|e: adamant_ir::Error| e.to_string())
}
impl Maker {
    fn shape_of(&mut self, sizes: &[usize]) -> Shape {
        Shape::new(sizes).unwrap()
    }
    fn floats(&mut self, shape: Shape, dtype: DType) -> HostArray {
        draw(shape, dtype, Spread::Within(-2.0, 2.0), &mut self.random)
    }
    /// A row's length, by who works on it.
    fn row(&mut self) -> usize {
        *self.random.pick(&[1, 2, 7, 63, 64, 65, 130, 1100])
    }
    fn rows_target(&mut self) -> LaunchTarget {
        *self.random.pick(&[device(None, false), device(Some(8), true), device(Some(32), false), device(None, true)])
    }
    /// The case of a composite on these inputs.
    fn of_composite(self, name: &str, target: LaunchTarget, composite: impl Compound, inputs: Vec<HostArray>) -> Case {
        let composite = keyed(composite);
        let types: Vec<TensorType> = inputs.iter().map(|a| TensorType { shape: a.shape, dtype: a.dtype }).collect();
        let to: Vec<(Shape, DType)> = composite.infer(&types).unwrap().iter().map(|m| (m.shape, m.dtype)).collect();
        let shapes: Vec<String> = inputs.iter().map(|a| format!("{}{}", a.dtype, a.shape)).collect();
        let mut maker = self;
        let rows = if takes_rows(&**composite.function()) { composite.rows() } else { OperandSet::default() };
        let is_in = |of: u32, k: usize| of >> k & 1 == 1;
        let arrays = inputs.iter().enumerate().map(|(k, a)| if is_in(rows.inputs, k) { maker.known_rows(a) } else { maker.known(a) }).collect();
        let outputs =
            to.iter().enumerate().map(|(k, &(shape, dtype))| if is_in(rows.outputs, k) { maker.output_rows(shape, dtype) } else { maker.output(shape, dtype) });
        let outputs = outputs.collect();
        let own = composite.clone();
        let check = Box::new(move |got: &[HostArray], reports: &[super::cases::Report]| {
            if let Some(report) = reports.iter().find(|r| r.1[0] != u32::MAX) {
                return Err(format!("reported {report:?}"));
            }
            let want = on_reference(&own, &inputs)?;
            got.iter().zip(&want).enumerate().try_for_each(|(k, (g, w))| tolerance::composed(g, w).map_err(|e| format!("result {k}: {e}")))
        });
        let name = format!("{name} {}", shapes.join(", "));
        maker.case(name, target, KernelKind::Composite(composite.function().clone()), arrays, outputs, check)
    }
}
pub fn softmax(mut m: Maker) -> Case {
    let dtype = *m.random.pick(&FLOATS);
    let (outer, count, inner) = (m.random.between(0, 5), m.row(), m.random.between(1, 3));
    let shape = m.shape_of(&[outer, count, inner]);
    let target = m.rows_target();
    let (x, g) = (m.floats(shape, dtype), m.floats(shape, dtype));
    match m.random.below(4) {
        0 => m.of_composite("softmax", target, Softmax { axis: 1 }, vec![x]),
        1 => m.of_composite("log softmax", target, LogSoftmax { axis: 1 }, vec![x]),
        2 => {
            let y = on_reference(&keyed(Softmax { axis: 1 }), std::slice::from_ref(&x)).unwrap().swap_remove(0);
            m.of_composite("softmax backward", target, SoftmaxBackward { axis: 1 }, vec![g, y])
        }
        _ => {
            let y = on_reference(&keyed(LogSoftmax { axis: 1 }), std::slice::from_ref(&x)).unwrap().swap_remove(0);
            m.of_composite("log softmax backward", target, LogSoftmaxBackward { axis: 1 }, vec![g, y])
        }
    }
}
pub fn norm(mut m: Maker) -> Case {
    let dtype = *m.random.pick(&FLOATS);
    let (rows, count, groups) = (m.random.between(2, 6), m.row(), m.random.between(1, 2));
    let over = *m.random.pick(&[Over::Layer { axes: 1 }, Over::Rms { axes: 1 }, Over::Group { groups }, Over::Batch]);
    let (shape, features) = match over {
        Over::Layer { .. } | Over::Rms { .. } => (m.shape_of(&[rows, count]), count),
        Over::Group { .. } | Over::Batch => (m.shape_of(&[rows, 4, count.min(130)]), 4),
    };
    let of = m.shape_of(&[features]);
    let weight = m.random.one_in(2);
    let bias = weight && !matches!(over, Over::Rms { .. }) && m.random.one_in(2);
    let norm = Norm { over, eps: 1e-3, weight, bias };
    let target = m.rows_target();
    let mut inputs = vec![m.floats(shape, dtype)];
    (0..usize::from(weight) + usize::from(bias)).for_each(|_| inputs.push(m.floats(of, dtype)));
    if m.random.one_in(2) {
        return m.of_composite(&format!("{over:?}"), target, norm, inputs);
    }
    let statistics = on_reference(&keyed(norm), &inputs).unwrap().split_off(1);
    let mut all = vec![m.floats(shape, dtype)];
    all.extend(inputs.into_iter().take(1 + usize::from(weight)));
    all.extend(statistics);
    m.of_composite(&format!("{over:?} backward"), target, NormBackward(norm), all)
}
pub fn cross_entropy(mut m: Maker) -> Case {
    let dtype = *m.random.pick(&FLOATS);
    let (rows, classes, planes) = (m.random.between(1, 40), m.row(), m.random.between(1, 2));
    let reduction = *m.random.pick(&[Reduction::None, Reduction::Sum, Reduction::Mean]);
    let weight = m.random.one_in(2);
    let label_smoothing = *m.random.pick(&[0.0, 0.1]);
    let loss = CrossEntropy { probabilities: false, ignore_index: 3, label_smoothing, reduction, weight };
    let target = m.rows_target();
    let shape = m.shape_of(&[rows, classes, planes]);
    let index = draw(m.shape_of(&[rows, planes]), *m.random.pick(&[DType::I64, DType::I32]), Spread::Below(classes), &mut m.random);
    let mut inputs = vec![m.floats(shape, dtype), index];
    if weight {
        let of = m.shape_of(&[classes]);
        inputs.push(draw(of, dtype, Spread::Within(0.5, 1.5), &mut m.random));
    }
    if m.random.one_in(2) {
        return m.of_composite(&format!("cross entropy {reduction:?}"), target, loss, inputs);
    }
    let mut forward = on_reference(&keyed(loss), &inputs).unwrap();
    let statistics = forward.split_off(1);
    let mut all = vec![m.floats(forward[0].shape, forward[0].dtype)];
    all.extend(inputs);
    all.extend(statistics);
    m.of_composite(&format!("cross entropy backward {reduction:?}"), target, CrossEntropyBackward(loss), all)
}
pub fn attention(mut m: Maker) -> Case {
    let dtype = *m.random.pick(&FLOATS);
    // Of one key the cotangents of queries are differences of equal numbers, and rounding alone is left of them.
    let (heads, queries, keys) = (m.random.between(1, 3), m.random.between(1, 20), m.random.between(2, 20));
    let (features, values) = (m.random.between(1, 20), m.random.between(1, 20));
    let shared = if m.random.one_in(3) { 1 } else { heads };
    let forward = Attention { scale: 0.4, causal: m.random.one_in(2), mask: m.random.one_in(3), dropout: if m.random.one_in(4) { 0.25 } else { 0.0 } };
    let is_added = forward.mask && m.random.one_in(2);
    // Loops over what a mask is added to may be too long for a driver on the host.
    let target = if is_added { device(Some(32), false) } else { *m.random.pick(&[device(Some(4), true), device(Some(8), true), device(Some(32), false)]) };
    let [of_q, of_k, of_v] = [[heads, queries, features], [shared, keys, features], [shared, keys, values]].map(|s| m.shape_of(&s));
    let mut inputs = vec![m.floats(of_q, dtype), m.floats(of_k, dtype), m.floats(of_v, dtype)];
    if forward.mask {
        // Along keys the cotangents of scores cancel.
        let of = *m.random.pick(&[[heads, queries, keys], [1, queries, keys], [1, 1, keys]]);
        let from = m.random.below(2) * usize::from(of[0] == 1);
        let of = m.shape_of(&of[from..]);
        inputs.push(if is_added { m.floats(of, dtype) } else { draw(of, DType::Bool, Spread::Coarse, &mut m.random) });
    }
    if forward.dropout > 0.0 {
        let of = m.shape_of(&[4]);
        inputs.push(draw(of, DType::U32, Spread::Below(1 << 20), &mut m.random));
    }
    if m.random.one_in(2) {
        return m.of_composite("attention", target, forward, inputs);
    }
    let results = on_reference(&keyed(forward), &inputs).unwrap();
    let mut all = vec![m.floats(results[0].shape, dtype)];
    all.extend(inputs);
    all.extend(results);
    m.of_composite("attention backward", target, AttentionBackward { forward, with_lse: false }, all)
}
/// Is everything around a result as it was?
pub fn is_untouched(bytes: &[u8], from: usize, to: usize) -> bool {
    bytes[..from].iter().chain(&bytes[to..]).all(|&b| b == STRANGER)
}
