//! PyTorch's words for entries of the registry that random programs do not spell: with options of a type of ours, of several
//! steps, or that make a tensor of nothing.
use adamant_conformance::{
    programs::{
        registered,
        table::{ArgKind, Callee, TorchFunction},
    },
    registry,
};

/// The name (without its space where one is meant), words that its entry has, and PyTorch's expression.
const SPELLED: &[(&str, &str, &str)] = &[
    ("contiguous", "", "x[0].mT.contiguous()"),
    // By itself PyTorch notes that whoever reads it has to negate.
    ("conj", "", "pairs(x[0]).conj().resolve_conj()"),
    ("ravel", "", "x[0].mT.ravel()"),
    ("slice", "", "x[0][1:6:2]"),
    ("update_slice", "", "torch.slice_scatter(x[0], x[1], 0, 1, 1 + x[1].shape[0])"),
    ("zeros", "", "torch.zeros(2, 3)"),
    ("ones", "", "torch.ones(2, 3)"),
    ("full", "", "torch.full((2, 3), 2, dtype=I32)"),
    ("arange", "", "torch.arange(1, 10, 2)"),
    ("linspace", "", "torch.linspace(-1.0, 2.0, 7, dtype=F64)"),
    ("logspace", "", "torch.logspace(-1.0, 2.0, 7, 10.0, dtype=F64)"),
    ("fftfreq", "", "torch.fft.fftfreq(5, 0.5)"),
    ("rfftfreq", "", "torch.fft.rfftfreq(5, 0.5)"),
    ("hann_window", "", "torch.hann_window(5, True, dtype=F64)"),
    ("hamming_window", "", "torch.hamming_window(5, True, dtype=F64)"),
    ("blackman_window", "", "torch.blackman_window(5, False, dtype=F64)"),
    ("bartlett_window", "", "torch.bartlett_window(5, False, dtype=F64)"),
    ("kaiser_window", "", "torch.kaiser_window(5, True, 12.0, dtype=F64)"),
    ("eye", "", "torch.eye(3)"),
    ("tril_indices", "", "torch.tril_indices(3, 4, 1)"),
    ("triu_indices", "", "torch.triu_indices(3, 4, -1)"),
    ("aminmax_keepdim", "", "torch.aminmax(x[0], keepdim=True)"),
    ("vector_norm_keepdim", "", "torch.linalg.vector_norm(x[0], 2, keepdim=True)"),
    ("matrix_norm_keepdim", "", "torch.linalg.matrix_norm(x[0], keepdim=True)"),
    ("quantile_keepdim", "", "torch.quantile(x[0], 0.3, 1, True, interpolation='lower')"),
    ("nanquantile_keepdim", "", "torch.nanquantile(x[0], 0.3, 1, True)"),
    ("quantiles", "", "torch.quantile(x[0], torch.tensor([0.1, 0.9], dtype=x[0].dtype), 1)"),
    ("quantiles_keepdim", "", "torch.quantile(x[0], torch.tensor([0.1, 0.9], dtype=x[0].dtype), 1, True)"),
    ("corrcoef", "", "torch.corrcoef(x[0]).tril(-1)"),
    ("segment_reduce", "Segments::Lengths", "torch.segment_reduce(x[0], 'sum', lengths=x[1], axis=0)"),
    ("embedding", "", "F.embedding(x[1], x[0])"),
    ("embedding_bag", "None, BagMode::Mean", "F.embedding_bag(x[1], x[0], mode='mean')"),
    ("embedding_bag", "None, BagMode::Max", "F.embedding_bag(x[1], x[0], mode='max')"),
    ("index_put", "false", "x[0].index_put((x[1],), x[2])"),
    ("index_put", "true", "x[0].index_put((x[1],), x[2], accumulate=True)"),
    ("index_reduce", "", "torch.index_reduce(x[0], 1, x[1], x[2], 'mean')"),
    ("cholesky_solve", "", "torch.cholesky_solve(x[1], torch.linalg.cholesky((x[0] + x[0].mT) * 0.5))"),
    ("cholesky_inverse", "", "torch.cholesky_inverse(torch.linalg.cholesky((x[0] + x[0].mT) * 0.5))"),
    ("cholesky_ex", "", "torch.linalg.cholesky_ex((x[0] + x[0].mT) * 0.5, upper=True)"),
    ("tensorinv", "", "torch.linalg.tensorinv(x[0].reshape(2, 2, 4), ind=2)"),
    ("tensorsolve", "", "torch.linalg.tensorsolve(x[0].reshape(2, 2, 4), x[1])"),
    ("irfft2", "", "torch.fft.irfft2(pairs(x[0]), (x[0].shape[0], 4))"),
    ("irfftn", "", "torch.fft.irfftn(pairs(x[0]), (3, 4), (0, 1))"),
    ("hfftn", "", "torch.fft.hfftn(pairs(x[0]), None, (0, 1))"),
    ("ihfftn", "", "torch.fft.ihfftn(x[0], None, (0, 1))"),
    ("hfft2", "", "torch.fft.hfft2(pairs(x[0]))"),
    ("ihfft2", "", "torch.fft.ihfft2(x[0])"),
    ("stft", "", "torch.stft(x[0], 4, 2, window=x[1], center=True, return_complex=True)"),
    ("istft", "", "torch.istft(pairs(x[0]), 4, 2, window=x[1])"),
    ("eigh", "", "(lambda e: (e[0], e[1].square()))(torch.linalg.eigh((x[0] + x[0].mT) * 0.5))"),
    ("eigvalsh", "", "torch.linalg.eigvalsh((x[0] + x[0].mT) * 0.5)"),
    ("eigvals", "", "torch.view_as_real(torch.linalg.eigvals(x[0] + x[0].triu(1) * 0.25)).square().sum((-1, -2))"),
    ("svd", "", "(lambda u, s, v: (u.square(), s, v.square()))(*torch.linalg.svd(x[0], full_matrices=False))"),
    ("lu", "", "torch.linalg.lu(x[0] + 4 * torch.eye(*x[0].shape[-2:], dtype=x[0].dtype))"),
    ("lu_factor", "", "torch.linalg.lu_factor(x[0] + 4 * torch.eye(*x[0].shape[-2:], dtype=x[0].dtype))"),
    ("lu_factor_ex", "", "torch.linalg.lu_factor_ex(x[0] + 4 * torch.eye(*x[0].shape[-2:], dtype=x[0].dtype))"),
    ("lu_solve", "false", "torch.linalg.lu_solve(*torch.linalg.lu_factor(x[0] + 4 * torch.eye(*x[0].shape[-2:], dtype=x[0].dtype)), x[1])"),
    ("matrix_exp", "", "torch.linalg.matrix_exp(x[0] * 0.5)"),
    ("qr_mode", "", "torch.linalg.qr(x[0][..., :2])"),
    ("conv3d", "", "F.conv3d(x[0], x[1])"),
    ("conv_transpose1d", "", "F.conv_transpose1d(x[0], x[1], x[2], stride=2)"),
    ("conv_transpose2d", "", "F.conv_transpose2d(x[0], x[1], None, 2, 1)"),
    ("conv_transpose3d", "", "F.conv_transpose3d(x[0], x[1])"),
    ("max_pool3d", "", "F.max_pool3d(x[0], 2, return_indices=True)"),
    ("avg_pool3d", "", "F.avg_pool3d(x[0], 2)"),
    ("linear_cross_entropy", "", "F.cross_entropy(F.linear(x[0], x[1], x[2]), x[3])"),
    ("batch_norm", "", "F.batch_norm(x[0], None, None, x[1], x[2], True)"),
    ("batch_norm_training", "", "F.batch_norm(x[0], None, None, x[1], x[2], True)"),
    ("instance_norm_statistics", "", "F.instance_norm(x[0], None, None, x[1], x[2])"),
    ("functional::unfold", "", "F.unfold(x[0], 2)"),
    ("fold", "", "F.fold(x[0], (4, 4), 2)"),
    ("grid_sample", "", "F.grid_sample(x[0], x[1], align_corners=False)"),
    ("interpolate", "InterpolateMode::Linear", "F.interpolate(x[0], size=(5,), mode='linear', align_corners=False)"),
    ("interpolate", "InterpolateMode::Bicubic", "F.interpolate(x[0], scale_factor=2.0, mode='bicubic', align_corners=True)"),
    ("interpolate", "InterpolateOptions::default", "F.interpolate(x[0], size=(5,))"),
    ("ctc_loss", "", "F.ctc_loss(torch.log_softmax(x[0], 2), x[1], x[2], x[3])"),
    (
        "triplet_margin_with_distance_loss",
        "",
        "F.triplet_margin_with_distance_loss(x[0], x[1], x[2], distance_function=lambda a, b: (a - b).square().sum(-1), margin=1.0, swap=True)",
    ),
];

/// Functions that are not drawn though their name is PyTorch's too or is looked for there, and why.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("Tensor::ldl_factor", "each has something else above the diagonal, where nothing is promised"),
    ("Tensor::ldl_factor_ex", "each has something else above the diagonal, where nothing is promised"),
    ("Tensor::histogramdd", "PyTorch's takes other arguments"),
    ("Tensor::airy_ai_derivative", "PyTorch has no such function"),
    ("Tensor::iota_like", "PyTorch has no such function"),
    ("Tensor::linear_recurrence", "PyTorch has no such function"),
    ("Tensor::rearrange", "PyTorch has no such function"),
];

/// Every function that is drawn: those of random programs, and these.
pub fn functions() -> Vec<TorchFunction> {
    let mut all = registered::functions();
    let mut spelled = Vec::new();
    for entry in registry::entries() {
        let registry::Function::Call(call) = entry.function else { continue };
        let text = entry.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let short = entry.name.rsplit("::").next().unwrap_or_default();
        let is_this = |name: &str| name == entry.name || (name == short && name != "unfold");
        let Some((_, _, torch)) = SPELLED.iter().find(|(name, words, _)| is_this(name) && text.contains(words)) else { continue };
        if spelled.iter().any(|f: &TorchFunction| f.name == entry.name && f.torch == *torch) {
            continue;
        }
        let kinds = entry.inputs.into_iter().map(ArgKind::Sample).collect();
        spelled.push(TorchFunction { name: entry.name, torch: (*torch).into(), kinds, callee: Callee::Registered(call) });
    }
    all.retain(|f| !spelled.iter().any(|s| s.name == f.name));
    all.extend(spelled);
    all.retain(|f| !LEFT_OUT.iter().any(|(name, _)| *name == f.name));
    all
}
