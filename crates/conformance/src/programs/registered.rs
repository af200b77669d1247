//! Functions that need no row of the table: the scalar tables, and every entry of the registry that is spelled alike in
//! PyTorch. An entry that is added there takes part by itself.
//!
//! The text of an entry's call is nearly Python already: `x[0].roll([2], [1])`. PyTorch is asked for the name as a method
//! and in its namespaces (`named` in `programs.py`). A call of several steps, or with options of a type of ours, is not
//! translated; [`untranslated`] lists what takes no part for that.
use super::table::{self, ArgKind, Callee, TorchFunction};
use crate::registry::{self, Entry};
use adamant_core::scalar::{Binary, Unary};
use std::collections::BTreeSet;

/// Functions under another name or spelling there, with the numbers that stand in their entries. An empty one: PyTorch has no
/// such function, or a row of the table has it.
const SPELLED: &[(&str, &str)] = &[
    ("div_trunc", "torch.div(x[0], x[1], rounding_mode='trunc')"),
    ("log_sigmoid", "F.logsigmoid(x[0])"),
    ("gelu_tanh", "F.gelu(x[0], approximate='tanh')"),
    ("polygamma", ""),
    ("trigamma", "torch.polygamma(1, x[0])"),
    ("erfcx", "torch.special.erfcx(x[0])"),
    ("vander", "torch.linalg.vander(x[0], N=4)"),
    ("tensordot", "torch.tensordot(x[0], x[1], ([1, 2], [1, 0]))"),
    ("tensordot_last", "torch.tensordot(x[0], x[1], 1)"),
    ("cov", "torch.cov(x[0], correction=1, aweights=x[1])"),
    ("addr", "torch.addr(x[0], x[1], x[2], beta=2, alpha=3)"),
    ("addbmm", "torch.addbmm(x[0], x[1], x[2], beta=0.5, alpha=2.0)"),
    ("addmv", "torch.addmv(x[0], x[1], x[2], beta=0.5, alpha=2.0)"),
    ("baddbmm", "torch.baddbmm(x[0], x[1], x[2], beta=0.5, alpha=2.0)"),
    ("multi_dot", "torch.linalg.multi_dot(x)"),
    ("cholesky", "torch.linalg.cholesky((x[0] + x[0].mT) * 0.5)"),
    ("cond", "torch.linalg.cond(x[0])"),
    ("matrix_rank", "torch.linalg.matrix_rank(x[0])"),
    ("pinv", "torch.linalg.pinv(x[0])"),
    ("index", "x[0][x[1], :, x[2]]"),
    ("select", "torch.where(x[0], x[1], x[2])"),
    ("vecdot", "torch.linalg.vecdot(x[0], x[1], dim=1)"),
    ("masked_fill_with", "x[0].masked_fill(x[1], x[2])"),
    ("adaptive_avg_pool", "F.adaptive_avg_pool1d(x[0], (3,))"),
    ("adaptive_max_pool", "F.adaptive_max_pool1d(x[0], (3,), return_indices=True)"),
    ("max_unpool", "F.max_unpool1d(x[0], x[1], 2, output_size=(6,))"),
    ("fake_quantize_per_tensor", "torch.fake_quantize_per_tensor_affine(x[0], 0.1, 0, -8, 7)"),
    ("fake_quantize_per_channel", "torch.fake_quantize_per_channel_affine(x[0], x[1], x[2].int(), 0, -8, 7)"),
    ("geglu", "F.gelu(x[0].chunk(2, -1)[0]) * x[0].chunk(2, -1)[1]"),
    ("swiglu", "F.silu(x[0].chunk(2, -1)[0]) * x[0].chunk(2, -1)[1]"),
    ("solve_triangular", "torch.linalg.solve_triangular(x[0], x[1], upper=True)"),
    ("lstsq", "torch.linalg.lstsq(x[0], x[1]).solution"),
    ("qr", "torch.linalg.qr(x[0])"),
    ("conj", "pairs(x[0]).conj()"),
    ("real", "pairs(x[0]).real"),
    ("imag", "pairs(x[0]).imag"),
    ("complex_angle", "pairs(x[0]).angle()"),
    ("complex_abs", "pairs(x[0]).abs()"),
    ("complex_mul", "pairs(x[0]) * pairs(x[1])"),
    ("fft", "torch.fft.fft(pairs(x[0]), None, 1)"),
    ("ifft", "torch.fft.ifft(pairs(x[0]), None, 1, 'ortho')"),
    ("rfft", "torch.fft.rfft(x[0], None, 1)"),
    ("irfft", "torch.fft.irfft(pairs(x[0]), 6, 1)"),
    ("fft2", "torch.fft.fft2(pairs(x[0]))"),
    ("ifft2", "torch.fft.ifft2(pairs(x[0]))"),
    ("rfft2", "torch.fft.rfft2(x[0])"),
    ("fftn", "torch.fft.fftn(pairs(x[0]), (2, 5), (1, 0))"),
    ("ifftn", "torch.fft.ifftn(pairs(x[0]), None, (0, 1))"),
    ("rfftn", "torch.fft.rfftn(x[0], None, (0, 1))"),
    ("hfft", "torch.fft.hfft(pairs(x[0]), None, 1)"),
    ("ihfft", "torch.fft.ihfft(x[0], None, 1)"),
    ("gradient", "torch.gradient(x[0], spacing=(x[1],), dim=1, edge_order=2)"),
    ("histogram", "torch.histogram(x[0], x[1], density=True).hist"),
    ("repeat_interleave_by", "torch.repeat_interleave(x[0], x[1], 0)"),
    ("meshgrid", ""),
    ("norm", "torch.linalg.vector_norm(x[0])"),
    ("batch_norm_inference", "F.batch_norm(x[0], x[1], x[2], x[3], x[4])"),
    ("layer_norm", "F.layer_norm(x[0], (4,), x[1], x[2])"),
    ("instance_norm", "F.instance_norm(x[0], None, None, x[1], x[2])"),
    ("scaled_dot_product_attention", "F.scaled_dot_product_attention(x[0], x[1], x[2])"),
    ("tensor_split_at", "torch.tensor_split(x[0], (1, 3), 0)"),
    ("get", "x[0][1]"),
    ("slice_signed", "x[0][-6::2]"),
    ("trapezoid", "torch.trapezoid(x[0], x[1], dim=1)"),
    ("cumulative_trapezoid", "torch.cumulative_trapezoid(x[0], dx=0.5, dim=1)"),
    ("nextafter", "torch.nextafter(x[0], x[1])"),
    ("diagonal_scatter", "torch.diagonal_scatter(x[0], x[1], 1, 0, 1)"),
    ("slice_scatter", "torch.slice_scatter(x[0], x[1], 1, 1, None, 2)"),
    ("unravel_index", "torch.unravel_index(x[0], (3, 4))"),
    ("softplus_with", "F.softplus(x[0], 2.0, 20.0)"),
    ("logit_with", "torch.logit(x[0], 1e-3)"),
    ("poisson_nll_loss", "F.poisson_nll_loss(x[0], x[1])"),
    ("gaussian_nll_loss", "F.gaussian_nll_loss(x[0], x[1], x[2])"),
    ("multilabel_soft_margin_loss", "F.multilabel_soft_margin_loss(x[0], x[1])"),
    ("hinge_embedding_loss", "F.hinge_embedding_loss(x[0], x[1])"),
    ("cosine_embedding_loss", "F.cosine_embedding_loss(x[0], x[1], x[2], margin=0.1)"),
    ("margin_ranking_loss", "F.margin_ranking_loss(x[0], x[1], x[2], margin=0.3)"),
    ("triplet_margin_loss", "F.triplet_margin_loss(x[0], x[1], x[2])"),
    ("multilabel_margin_loss", "F.multilabel_margin_loss(x[0], x[1])"),
    ("multi_margin_loss", "F.multi_margin_loss(x[0], x[1])"),
];

/// Functions that take no part, each with the reason.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("Op::conv_weight_grad", "a step of a convolution's gradient, which is compared with the convolution"),
    ("Op::sum_pool_transposed", "a step of a pool's gradient, which is compared with the pool"),
    ("Tensor::sinc_derivative", "the derivative of sinc has no name there; it is compared as the gradient of sinc"),
    ("Tensor::airy_ai_derivative", "PyTorch has the Airy function and not its derivative"),
    ("Tensor::iota_like", "PyTorch counts along no axis of a tensor"),
    ("Tensor::linear_recurrence", "PyTorch has no recurrence"),
    ("Tensor::safe_log", "PyTorch has no logarithm with a floor"),
    ("functional::quantized_linear", "PyTorch's takes weights in an object of its own; it is compared with integer arithmetic by `xtask quant integers`"),
    ("functional::quantized_conv", "PyTorch's takes weights in an object of its own; core/tests/quantized.rs has integer arithmetic"),
    ("functional::quantized_attention", "PyTorch has none; core/tests/token_codes.rs has arithmetic of the host"),
    ("functional::quantized_embedding", "PyTorch's takes weights in an object of its own"),
    ("functional::rotary_half", "rotary embeddings stand in transformers, not in PyTorch"),
];

/// Every function that takes part.
pub fn functions() -> Vec<TorchFunction> {
    let mut all = table::rows();
    let named: BTreeSet<String> = all.iter().map(|f| f.name.clone()).collect();
    for entry in registry::entries() {
        if LEFT_OUT.iter().any(|(name, _)| *name == entry.name) {
            continue;
        }
        if named.contains(&entry.name) && !entry.text.is_empty() {
            continue;
        }
        let Some(function) = of_entry(&entry) else { continue };
        // Samples of one call differ in their inputs only, and one of them is enough.
        if !all.iter().any(|known| known.name == function.name && known.torch == function.torch) {
            all.push(function);
        }
    }
    all
}
/// Functions of the registry that take no part, with the reason; none: nobody has spelled them yet.
pub fn untranslated() -> Vec<(String, Option<&'static str>)> {
    let known: BTreeSet<String> = functions().into_iter().map(|f| f.name).collect();
    let mut seen = BTreeSet::new();
    registry::entries()
        .into_iter()
        .filter(|e| !known.contains(&e.name) && seen.insert(e.name.clone()))
        .map(|e| {
            let reason = LEFT_OUT.iter().find(|(name, _)| *name == e.name).map(|(_, reason)| *reason);
            (e.name, reason)
        })
        .collect()
}
fn of_entry(entry: &Entry) -> Option<TorchFunction> {
    let short = entry.name.rsplit("::").next()?;
    let spelled = SPELLED.iter().find(|(name, _)| *name == short).map(|(_, text)| *text);
    let (callee, kinds, plain) = match entry.function {
        registry::Function::Unary(f) => (Callee::Unary(f), unary(f), Some(format!("named('{short}', x[0])"))),
        registry::Function::Binary(f) => (Callee::Binary(f), binary(f), Some(format!("named('{short}', x[0], x[1])"))),
        registry::Function::Number(..) => return None,
        registry::Function::Call(f) => (Callee::Registered(f), entry.inputs.iter().cloned().map(ArgKind::Sample).collect(), python(entry.text)),
    };
    let torch = spelled.map(str::to_owned).or(plain)?;
    (!torch.is_empty() && !kinds.is_empty()).then(|| TorchFunction { name: entry.name.clone(), torch, kinds, callee })
}
fn unary(_: Unary) -> Vec<ArgKind> {
    vec![ArgKind::Any]
}
fn binary(_: Binary) -> Vec<ArgKind> {
    vec![ArgKind::Any, ArgKind::Operand]
}
/// The Python of one call in Rust; none, if it is not plain enough.
fn python(text: &str) -> Option<String> {
    // A list of axes or sizes is one; what is borrowed is the thing.
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ").replace(['&', '\n'], "");
    let (name, args) = if let Some(rest) = text.strip_prefix("x[0].") {
        let (name, args) = rest.split_once('(')?;
        (name.to_owned(), format!("x[0], {args}"))
    } else {
        let rest = text.strip_prefix("Tensor::").or_else(|| text.strip_prefix("f::"))?;
        let (name, args) = rest.split_once('(')?;
        (name.to_owned(), args.to_owned())
    };
    let args = args.strip_suffix(')')?.trim().trim_end_matches(',').to_owned();
    let args = args.replace("Some(", "(").replace("true", "True").replace("false", "False");
    let args = ["F64", "F32", "I64", "I32"].iter().fold(args, |args, d| args.replace(&format!("DType::{d}"), d));
    let foreign = args.contains("::") || args.contains(['{', '|', ';']) || args.contains("..") || args.contains(").") || args.contains("].");
    let constants = ["MEAN", "NORM"].iter().any(|c| args.contains(c));
    let plain = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (plain && !foreign && !constants).then(|| format!("named('{name}', {args})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_call_is_python_and_another_is_left_out() {
        for (rust, wanted) in [
            ("x[0].roll([2], [1])", Some("named('roll', x[0], [2], [1])")),
            ("Tensor::polar(&x[0], &x[1])", Some("named('polar', x[0], x[1])")),
            ("f::linear(&x[0], &x[1], Some(&x[2]))", Some("named('linear', x[0], x[1], (x[2]))")),
            ("x[0].mt().contiguous()", None),
            ("f::conv2d(&x[0], &x[1], None, &Conv::default())", None),
        ] {
            assert_eq!(python(rust).as_deref(), wanted, "{rust}");
        }
    }
}
