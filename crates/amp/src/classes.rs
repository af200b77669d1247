//! In which precision each function runs under [`Autocast`](crate::Autocast): its class, by name. A test holds the names to those of
//! the registry of public functions, so that none is without a class.
use std::{collections::HashMap, sync::LazyLock};

/// What autocast does with a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PrecisionClass {
    /// It runs in the region's dtype: products and what is made of them.
    Low,
    /// It takes 16 bits and gives 16 bits, computes in f32 and rounds once: nothing is cast.
    Wide,
    /// It runs in f32, and its result is f32: its values or sums leave the range of f16, or lose too many digits.
    F32,
    /// It runs in the widest dtype of its tensors, as without autocast.
    Widest,
    /// Each op that it is made of is cast by its own class.
    Parts,
    /// It cannot be right in 16 bits.
    Refused,
}
use PrecisionClass::{F32, Low, Parts, Refused, Wide, Widest};
impl std::fmt::Display for PrecisionClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Low => "low",
            Wide => "wide",
            F32 => "f32",
            Widest => "widest",
            Parts => "parts",
            Refused => "refused",
        })
    }
}

/// Which functions have which class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PrecisionTable {
    /// Ours: what computes in f32 inside and rounds once keeps 16 bits in memory.
    #[default]
    Adamant,
    /// PyTorch's list of ops that autocast to f16 and to f32 on CUDA, for the same dtypes as there.
    Torch,
}
impl PrecisionTable {
    /// The class of a function or op; `None` of a name that no function has.
    ///
    /// ```
    /// use adamant_amp::{PrecisionClass, PrecisionTable};
    /// assert_eq!(PrecisionTable::Adamant.class("matmul"), Some(PrecisionClass::Low));
    /// assert_eq!(PrecisionTable::Adamant.class("softmax"), Some(PrecisionClass::Wide));
    /// assert_eq!(PrecisionTable::Torch.class("softmax"), Some(PrecisionClass::F32));
    /// assert_eq!(PrecisionTable::Adamant.class("softmox"), None);
    /// ```
    pub fn class(self, name: &str) -> Option<PrecisionClass> {
        static TABLES: LazyLock<[HashMap<&'static str, PrecisionClass>; 2]> = LazyLock::new(|| {
            let listed = |table: PrecisionTable| table.rows().collect();
            [listed(PrecisionTable::Adamant), listed(PrecisionTable::Torch)]
        });
        TABLES[self as usize].get(name).copied()
    }
    /// All names with their classes, those of one class together.
    pub fn rows(self) -> impl Iterator<Item = (&'static str, PrecisionClass)> {
        let words = |list: &'static str, class| list.split_whitespace().map(move |name| (name, class));
        let ours = words(LOW, Low)
            .chain(words(WIDE, Wide))
            .chain(words(SUMS, F32))
            .chain(words(LOSSES, F32))
            .chain(words(SPECIAL, F32))
            .chain(words(MATRICES, F32))
            .chain(words(WIDEST, Widest))
            .chain(words(PARTS, Parts))
            .chain(words(REFUSED, Refused));
        ours.map(move |(name, class)| match self {
            PrecisionTable::Adamant => (name, class),
            PrecisionTable::Torch => (name, of_torch(name, class)),
        })
    }
}
fn of_torch(name: &str, ours: PrecisionClass) -> PrecisionClass {
    let is_of = |list: &str| list.split_whitespace().any(|n| n == name);
    if is_of(TORCH_LOW) {
        Low
    } else if is_of(TORCH_F32) {
        F32
    } else if matches!(ours, Refused | Parts) {
        ours
    } else {
        Widest
    }
}

const LOW: &str = "addbmm addmm addmv addr attention baddbmm bilinear bmm conv conv1d conv2d conv3d conv_tbc conv_transpose conv_transpose1d
    conv_transpose2d conv_transpose3d conv_weight_grad dot einsum inner linear matmul mm multi_dot mv prelu scaled_dot_product_attention
    tensordot tensordot_last vecdot";
/// Functions of the layers, and every function of one number that f16 holds.
const WIDE: &str = "acosh airy_ai airy_ai_derivative asinh atan atanh batch_norm batch_norm_inference batch_norm_training bessel_j0 bessel_j1 celu
    cos elu entr erf erfc geglu gelu gelu_tanh glu group_norm hardsigmoid hardswish i0e i1e instance_norm instance_norm_statistics layer_norm
    leaky_relu local_response_norm log_ndtr log_sigmoid log_softmax mish ndtr rms_norm scaled_modified_bessel_k0 scaled_modified_bessel_k1
    selu sigmoid silu sin sinc sinc_derivative softmax softmin softsign spherical_bessel_j0 sqrt swiglu tanh tanhshrink";
const SUMS: &str = "cdist corrcoef cosine_similarity cov cumprod cumsum cumulative_trapezoid dist distances fourier fft fft2 fftn hfft hfft2 hfftn
    ifft ifft2 ifftn ihfft ihfft2 ihfftn irfft irfft2 irfftn istft linear_recurrence logaddexp logaddexp2 logcumsumexp logsumexp
    logsumexp_keepdim lp_pool1d lp_pool2d lp_pool3d mean mean_keepdim nanmean nanmean_keepdim nansum nansum_keepdim norm normalize
    pairwise_distance pairwise_distance_keepdim pdist prod prod_keepdim renorm rfft rfft2 rfftn std std_keepdim std_mean std_mean_keepdim stft
    sum sum_keepdim sum_to_size trapezoid var var_keepdim var_mean var_mean_keepdim vector_norm vector_norm_keepdim";
const LOSSES: &str = "binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss gaussian_nll_loss hinge_embedding_loss huber_loss
    kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss
    poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss";
/// What grows, or has poles.
const SPECIAL: &str = "acos asin bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w cosh
    digamma erfcx erfinv exp exp2 expm1 hermite_polynomial_h hermite_polynomial_he i0 i1 igamma igammac laguerre_polynomial_l
    legendre_polynomial_p lgamma log log10 log1p log2 logit logit_with modified_bessel_k0 modified_bessel_k1 multigammaln ndtri polygamma pow
    reciprocal rsqrt safe_log shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
    shifted_chebyshev_polynomial_w sinh softplus softplus_with tan trigamma xlog1py xlogy zeta";
const MATRICES: &str = "cholesky cholesky_ex cholesky_inverse cholesky_solve cofactors cond det eig eigh eigvals eigvalsh geqrf householder_product inv
    inv_ex ldl ldl_factor ldl_factor_ex ldl_solve lobpcg logdet lstsq lu lu_factor lu_factor_ex lu_order lu_solve matrix_exp matrix_norm
    matrix_norm_keepdim matrix_power matrix_rank matrix_sqrth ormqr pinv qr qr_mode reflections slogdet solve solve_ex solve_triangular svd
    svd_full svdvals tensorinv tensorsolve";
const PARTS: &str = "embedding_bag linear_cross_entropy";
const REFUSED: &str = "binary_cross_entropy";
const WIDEST: &str = "abs adaptive_avg_pool adaptive_max_pool add addcdiv addcmul adjoint affine_grid all all_keepdim amax amax_keepdim amin amin_keepdim
    aminmax aminmax_keepdim any any_keepdim arange argmax argmax_keepdim argmin argmin_keepdim argsort as_strided as_strided_scatter
    atan2 atleast_1d atleast_2d atleast_3d avg_pool1d avg_pool2d avg_pool3d bartlett_window bincount bitwise_and bitwise_left_shift
    bitwise_not bitwise_or bitwise_right_shift bitwise_xor blackman_window block_diag broadcast_tensors bucketize cartesian_prod
    cast cat ceil channel_shuffle chunk clamp clamp_max clamp_min clip_grad_norm column_stack combinations complex complex_abs
    complex_angle complex_mul conj contiguous copysign count_nonzero count_nonzero_keepdim cross cummax cummin deg2rad dequantize
    diag diag_embed diagflat diagonal diagonal_scatter diff div div_scalar div_trunc dsplit dstack embedding eq expand expand_as eye
    fake_quantize_per_channel fake_quantize_per_tensor fftfreq fftshift fill_diagonal flatten flip fliplr flipud floor floor_divide
    fmax fmin fmod fold frac fractional_max_pool frexp full full_like gather gcd ge get gradient grid_sample gt hamming_window
    hann_window hardshrink hardtanh heaviside histc histogram histogramdd hsplit hstack hypot i ifftshift imag index index_add
    index_copy index_fill index_put index_reduce index_select interpolate iota_like isclose isfinite isin isinf isnan isneginf
    isposinf kaiser_window kron kthvalue kthvalue_keepdim lcm ldexp le lerp linspace logical_and logical_not logical_or logical_xor
    logspace lt lu_unpack masked_fill masked_fill_with masked_scatter masked_select matmul_to max max_dim max_dim_keepdim max_pool1d
    max_pool2d max_pool3d max_unpool maximum mean_dtype median median_dim median_dim_keepdim meshgrid min min_dim min_dim_keepdim
    minimum mode mode_keepdim movedim msort mt mul nan_to_num nanmedian nanmedian_dim nanmedian_dim_keepdim nanquantile
    nanquantile_keepdim narrow ne neg nextafter nonzero nonzero_static one_hot ones ones_like outer pad pad_constant permute
    pixel_shuffle pixel_unshuffle polar positive put quantile quantile_keepdim quantiles quantiles_keepdim quantize quantized_attention quantized_conv quantized_embedding quantized_linear rad2deg
    ravel real rearrange relu relu6 remainder repeat repeat_interleave repeat_interleave_by reshape reshape_as rfftfreq roll rot90
    rotary_half round round_with scatter scatter_add scatter_reduce scatter_value searchsorted segment_reduce select select_scatter
    sgn sign signbit slice slice_scatter slice_signed softshrink sort split split_with_sizes square squeeze stack sub sum_dtype
    sum_pool_transposed t take take_along_dim tensor_split tensor_split_at threshold tile topk trace transpose tril tril_indices
    triu triu_indices trunc unbind unflatten unfold unique unique_consecutive unravel_index unsqueeze update_slice vander vsplit
    vstack where_ with_i with_i_added zeros zeros_like";

const TORCH_LOW: &str = "addbmm addmm addmv addr attention baddbmm bmm conv conv1d conv2d conv3d conv_tbc conv_transpose conv_transpose1d
    conv_transpose2d conv_transpose3d einsum linear matmul mm multi_dot mv prelu scaled_dot_product_attention";
const TORCH_F32: &str = "acos asin binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss cosine_similarity cross_entropy cumprod cumsum
    dist distances erfinv exp expm1 group_norm hinge_embedding_loss kl_div l1_loss layer_norm log log10 log1p log2 log_softmax
    margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss norm normalize pdist poisson_nll_loss pow prod
    prod_keepdim reciprocal renorm rsqrt sinh smooth_l1_loss soft_margin_loss softmax softmin softplus softplus_with sum sum_keepdim tan
    triplet_margin_loss vector_norm vector_norm_keepdim";
