//! Composites by name: how each is made again of its attributes, which is what a graph's text has of it. Core's own stand in one
//! table; a program adds its own with [`crate::register_composite!`].
use super::{
    Built, Compound, Given,
    attention::{Attention, AttentionBackward},
    conv::BiasedConv,
    ctc::{CtcAlignments, CtcAlignmentsBackward},
    distances::Distances,
    dropout::Dropout,
    embedding::{Embedding, EmbeddingBackward},
    finite::AllFinite,
    fourier::{Fourier, FourierKind},
    keyed,
    linear::Linear,
    logsumexp::LogSumExp,
    loss::{CrossEntropy, CrossEntropyBackward, CrossEntropyWithBackward, Reduction},
    norm::{BatchNormInference, Norm, NormBackward, Over},
    on_diagonal::OnDiagonal,
    packed::{Dequantize, QuantizedConv, QuantizedLinear},
    quantize::FakeQuantize,
    quantized_attention::QuantizedAttention,
    search::SearchSorted,
    softmax::{LogSoftmax, LogSoftmaxBackward, Softmax, SoftmaxBackward},
    sorted_range::SortedRange,
    split::Split,
    taps::{Taps, TapsBackward},
    true_places::TruePlaces,
};
use crate::{
    ErrorKind,
    functional::BinaryCrossEntropy,
    graph::nearest,
    op::{
        ConvRole,
        form::{axes, conv_spec},
    },
    specs::shared_conv,
    tensor::{PoissonCounts, factor, packed},
};
use std::ops::RangeInclusive;

/// A composite that takes this many inputs.
pub fn built(composite: impl Compound, inputs: RangeInclusive<usize>) -> Built {
    Built { function: keyed(composite), inputs }
}
/// How a composite is made of its attributes.
pub struct Constructor {
    /// the name of the composite, unique over all
    pub name: &'static str,
    /// takes the attributes; those that are left over are an error
    pub build: fn(&mut Given) -> Result<Built, ErrorKind>,
}
/// Constructors of composites outside core. A crate adds its own with [`crate::register_composite!`].
#[linkme::distributed_slice]
pub static CONSTRUCTORS: [Constructor];

/// Makes a composite known by its name, so that a graph's text with it can be read:
/// `register_composite!(SOFTSIGN, "example.softsign", 1..=1, |given| Ok(Softsign { softness: given.float("softness")? }))`.
/// The third argument says how many inputs it takes.
#[macro_export]
macro_rules! register_composite {
    ($id:ident, $name:literal, $inputs:expr, $build:expr) => {
        #[$crate::linkme::distributed_slice($crate::composite::CONSTRUCTORS)]
        #[linkme(crate = $crate::linkme)]
        static $id: $crate::composite::Constructor = $crate::composite::Constructor {
            name: $name,
            build: |given| {
                let build: fn(&mut $crate::composite::Given) -> ::std::result::Result<_, $crate::ErrorKind> = $build;
                Ok($crate::composite::built(build(given)?, $inputs))
            },
        };
    };
}

fn all() -> impl Iterator<Item = &'static Constructor> {
    OWN.iter().chain(&CONVS).chain(CONSTRUCTORS.iter())
}
/// Makes the composite of that name.
///
/// # Errors
/// No composite of that name is registered, or two are; attributes that it does not take.
pub fn build(name: &str, given: &mut Given) -> Result<Built, ErrorKind> {
    let mut known = all().filter(|c| c.name == name);
    match (known.next(), known.next()) {
        (Some(constructor), None) => (constructor.build)(given),
        (Some(_), Some(_)) => Err(ErrorKind::Argument(format!("two composites of the name `{name}` are registered"))),
        (None, _) => {
            let meant = nearest(name, registered()).map_or(String::new(), |n| format!("; did you mean `{n}`?"));
            Err(ErrorKind::Argument(format!("no composite `{name}` is registered (see `register_composite!`){meant}")))
        }
    }
}
/// The names of all registered composites.
pub fn registered() -> impl Iterator<Item = &'static str> {
    all().map(|c| c.name)
}
pub(crate) fn is_registered(name: &str) -> bool {
    registered().any(|n| n == name)
}

macro_rules! own {
    ($($name:literal |$given:ident| $inputs:expr => $composite:expr;)*) => {
        /// Core's own composites: name, number of inputs, value.
        static OWN: &[Constructor] = &[$(Constructor { name: $name, build: |$given| { let composite = $composite; Ok(built(composite, ($inputs)(&composite))) } }),*];
    };
}
fn some<const LEAST: usize, const MOST: usize, C>(_: &C) -> RangeInclusive<usize> {
    LEAST..=MOST
}
fn exactly(n: usize) -> RangeInclusive<usize> {
    n..=n
}
own! {
    "adamant.softmax" |g| some::<1, 1, _> => Softmax { axis: g.size("axis")? };
    "adamant.softmax_backward" |g| some::<2, 2, _> => SoftmaxBackward { axis: g.size("axis")? };
    "adamant.log_softmax" |g| some::<1, 1, _> => LogSoftmax { axis: g.size("axis")? };
    "adamant.log_softmax_backward" |g| some::<2, 2, _> => LogSoftmaxBackward { axis: g.size("axis")? };
    "adamant.logsumexp" |g| some::<1, 1, _> => LogSumExp { axes: axes(g)? };
    "adamant.sorted_range" |g| some::<1, 1, _> => SortedRange { axis: g.size("axis")?, descending: g.bool("descending")?, start: g.size("start")?, len: g.size("len")? };
    "adamant.fourier" |g| some::<1, 1, _> => Fourier { kind: fourier_kind(g)?, n: g.size("n")?, inverse: g.bool("inverse")?, scale: g.float("scale")? };
    "adamant.taps" |g| some::<3, 3, _> => Taps { axis: g.size("axis")? };
    "adamant.taps_backward" |g| some::<3, 3, _> => TapsBackward { axis: g.size("axis")?, size: g.size("size")? };
    "adamant.on_diagonal" |g| some::<1, 1, _> => OnDiagonal { offset: g.int("offset")? as isize };
    "adamant.ctc_alignments" |_g| some::<5, 5, _> => CtcAlignments;
    "adamant.ctc_alignments_backward" |_g| some::<7, 7, _> => CtcAlignmentsBackward;
    "adamant.true_places" |_g| some::<2, 2, _> => TruePlaces;
    "adamant.search_sorted" |g| some::<2, 2, _> => SearchSorted { right: g.bool("right")? };
    "adamant.distances" |g| |d: &Distances| exactly(if d.among { 1 } else { 2 }) => Distances { ord: g.float("ord")?, among: g.bool("among")? };
    "adamant.linear" |_g| some::<2, 3, _> => Linear;
    "adamant.split" |g| some::<1, 1, _> => split(g)?;
    "adamant.dropout" |g| some::<2, 2, _> => Dropout { p: g.float("p")? };
    "adamant.embedding" |g| some::<2, 2, _> => Embedding { padding_idx: g.size_or_none("padding_idx")? };
    "adamant.embedding_backward" |g| some::<2, 2, _> => EmbeddingBackward { rows: g.size("rows")?, padding_idx: g.size_or_none("padding_idx")? };
    "adamant.all_finite" |_g| some::<1, 1, _> => AllFinite;
    "adamant.binary_cross_entropy" |_g| some::<2, 2, _> => BinaryCrossEntropy;
    "adamant.fake_quantize" |g| some::<3, 3, _> => FakeQuantize { quant_min: g.int("quant_min")?, quant_max: g.int("quant_max")?, axis: g.size_or_none("axis")? };
    "adamant.dequantize" |g| |d: &Dequantize| exactly(if d.packing.symmetric { 2 } else { 3 }) => Dequantize::given(g)?;
    "adamant.quantized_attention" |g| |q: &QuantizedAttention| exactly(q.inputs()) => QuantizedAttention::given(g)?;
    "adamant.quantized_linear" |g| |q: &QuantizedLinear| exactly(q.inputs()) => QuantizedLinear::given(g)?;
    "adamant.layer_norm" |g| norm_inputs => norm(g, |g| Ok(Over::Layer { axes: g.size("axes")? }))?;
    "adamant.rms_norm" |g| norm_inputs => norm(g, |g| Ok(Over::Rms { axes: g.size("axes")? }))?;
    "adamant.group_norm" |g| norm_inputs => norm(g, |g| Ok(Over::Group { groups: g.size("groups")? }))?;
    "adamant.batch_norm" |g| norm_inputs => norm(g, batch)?;
    "adamant.layer_norm_backward" |g| norm_backward_inputs => NormBackward(norm(g, |g| Ok(Over::Layer { axes: g.size("axes")? }))?);
    "adamant.rms_norm_backward" |g| norm_backward_inputs => NormBackward(norm(g, |g| Ok(Over::Rms { axes: g.size("axes")? }))?);
    "adamant.group_norm_backward" |g| norm_backward_inputs => NormBackward(norm(g, |g| Ok(Over::Group { groups: g.size("groups")? }))?);
    "adamant.batch_norm_backward" |g| norm_backward_inputs => NormBackward(norm(g, batch)?);
    "adamant.batch_norm_inference" |g| |n: &BatchNormInference| exactly(3 + usize::from(n.weight) + usize::from(n.bias)) => BatchNormInference { eps: g.float("eps")?, weight: g.bool("weight")?, bias: g.bool("bias")? };
    "adamant.cross_entropy" |g| loss_inputs => cross_entropy(g)?;
    "adamant.cross_entropy_backward" |g| |l: &CrossEntropyBackward| exactly(1 + loss_inputs(&l.0).start() + if l.0.probabilities { 0 } else { 2 }) => CrossEntropyBackward(cross_entropy(g)?);
    "adamant.cross_entropy_with_backward" |g| |l: &CrossEntropyWithBackward| exactly(1 + loss_inputs(&l.0).start()) => CrossEntropyWithBackward(cross_entropy(g)?);
    "adamant.attention" |g| |a: &Attention| exactly(attention_inputs(a)) => attention(g)?;
    "adamant.attention_backward" |g| |a: &AttentionBackward| exactly(attention_inputs(&a.forward) + 3 + usize::from(a.with_lse)) => AttentionBackward { forward: attention(g)?, with_lse: g.bool("with_lse")? };
    "adamant.det" |g| some::<1, 1, _> => factor("adamant.det", g)?;
    "adamant.cofactors" |g| some::<1, 1, _> => factor("adamant.cofactors", g)?;
    "adamant.slogdet" |g| some::<1, 1, _> => factor("adamant.slogdet", g)?;
    "adamant.inv" |g| some::<1, 1, _> => factor("adamant.inv", g)?;
    "adamant.solve" |g| some::<2, 2, _> => factor("adamant.solve", g)?;
    "adamant.cholesky" |g| some::<1, 1, _> => factor("adamant.cholesky", g)?;
    "adamant.solve_triangular" |g| some::<2, 2, _> => factor("adamant.solve_triangular", g)?;
    "adamant.qr" |g| some::<1, 1, _> => factor("adamant.qr", g)?;
    "adamant.eigh" |g| some::<1, 1, _> => factor("adamant.eigh", g)?;
    "adamant.svd" |g| some::<1, 1, _> => factor("adamant.svd", g)?;
    "adamant.eigvalsh" |g| some::<1, 1, _> => factor("adamant.eigvalsh", g)?;
    "adamant.svdvals" |g| some::<1, 1, _> => factor("adamant.svdvals", g)?;
    "adamant.pinv" |g| some::<1, 1, _> => factor("adamant.pinv", g)?;
    "adamant.poisson" |_g| some::<2, 2, _> => PoissonCounts;
    "adamant.lu" |g| some::<1, 1, _> => packed("adamant.lu", g)?;
    "adamant.lu_order" |g| some::<1, 1, _> => packed("adamant.lu_order", g)?;
    "adamant.ldl" |g| some::<1, 1, _> => packed("adamant.ldl", g)?;
    "adamant.ldl_solve" |g| some::<3, 3, _> => packed("adamant.ldl_solve", g)?;
    "adamant.reflections" |g| some::<1, 1, _> => packed("adamant.reflections", g)?;
    "adamant.matrix_exp" |g| some::<1, 1, _> => packed("adamant.matrix_exp", g)?;
    "adamant.matrix_sqrth" |g| some::<1, 1, _> => packed("adamant.matrix_sqrth", g)?;
    "adamant.eig" |g| some::<1, 1, _> => packed("adamant.eig", g)?;
    "adamant.inv_ex" |g| some::<1, 1, _> => packed("adamant.inv_ex", g)?;
    "adamant.solve_ex" |g| some::<2, 2, _> => packed("adamant.solve_ex", g)?;
    "adamant.cholesky_ex" |g| some::<1, 1, _> => packed("adamant.cholesky_ex", g)?;
}
/// A biased convolution is no `Copy` type, so it stands apart.
static CONVS: [Constructor; 3] = [
    Constructor { name: "adamant.conv", build: |g| Ok(built(BiasedConv(shared_conv(conv_spec(ConvRole::Forward, g)?)), 3..=3)) },
    Constructor {
        name: "adamant.quantized_conv",
        build: |g| {
            let conv = QuantizedConv::given(shared_conv(conv_spec(ConvRole::Forward, g)?), g)?;
            let inputs = conv.codes.inputs();
            Ok(built(conv, inputs..=inputs))
        },
    },
    Constructor { name: "adamant.conv_transpose", build: |g| Ok(built(BiasedConv(shared_conv(conv_spec(ConvRole::InputGrad, g)?)), 3..=3)) },
];
fn split(g: &mut Given) -> Result<Split, ErrorKind> {
    // It makes as many values as this says.
    const MOST: usize = 1 << 16;
    match (g.size("axis")?, g.size("parts")?) {
        (axis, parts) if parts <= MOST => Ok(Split { axis, parts }),
        (_, parts) => Err(ErrorKind::Argument(format!("`parts` is at most {MOST}, not {parts}"))),
    }
}
fn fourier_kind(g: &mut Given) -> Result<FourierKind, ErrorKind> {
    let name = g.text("kind")?;
    FourierKind::ALL.into_iter().find(|k| k.name() == name).ok_or_else(|| ErrorKind::Argument(format!("there is no transform `{name}`")))
}
fn norm(g: &mut Given, over: fn(&mut Given) -> Result<Over, ErrorKind>) -> Result<Norm, ErrorKind> {
    Ok(Norm { over: over(g)?, eps: g.float("eps")?, weight: g.bool("weight")?, bias: g.bool("bias")? })
}
fn batch(g: &mut Given) -> Result<Over, ErrorKind> {
    if g.bool("training")? { Ok(Over::Batch) } else { Err(ErrorKind::Argument("`training` is true; the other one is adamant.batch_norm_inference".into())) }
}
fn norm_inputs(n: &Norm) -> RangeInclusive<usize> {
    exactly(1 + usize::from(n.weight) + usize::from(n.bias))
}
fn norm_backward_inputs(n: &NormBackward) -> RangeInclusive<usize> {
    exactly(2 + usize::from(n.0.weight) + if matches!(n.0.over, Over::Rms { .. }) { 1 } else { 2 })
}
fn cross_entropy(g: &mut Given) -> Result<CrossEntropy, ErrorKind> {
    Ok(CrossEntropy {
        probabilities: g.bool("probabilities")?,
        ignore_index: g.int("ignore_index")?,
        label_smoothing: g.float("label_smoothing")?,
        reduction: g.text("reduction")?.parse::<Reduction>().map_err(|e| e.kind().clone())?,
        weight: g.bool("weight")?,
    })
}
fn loss_inputs(l: &CrossEntropy) -> RangeInclusive<usize> {
    exactly(2 + usize::from(l.weight))
}
fn attention(g: &mut Given) -> Result<Attention, ErrorKind> {
    Ok(Attention { scale: g.float("scale")?, causal: g.bool("causal")?, mask: g.bool("mask")?, dropout: g.float("dropout")? })
}
fn attention_inputs(a: &Attention) -> usize {
    3 + usize::from(a.mask) + usize::from(a.dropout > 0.0)
}
