//! The table of named differences.
use super::{
    super::{ProgramArg, replay::ProgramDifference},
    NamedDifference,
};
use adamant_core::DType;

/// `"name": "functions" |case| holds, "reason"`
macro_rules! lines {
    ($($name:literal: $functions:literal |$case:ident| $holds:expr, $reason:literal;)*) => {
        &[$(NamedDifference { name: $name, reason: $reason, functions: $functions, holds: |$case| $holds }),*]
    };
}

/// All of them. The first that holds counts.
pub const LINES: &[NamedDifference] = lines! {
    "no kernel there": "" |c| c.there() && c.said(&["not implemented for", "not supported for", "does not support bool", "Unsupported input type", "not yet implemented", "bool is not supported", "must be Float", "supports floating point, complex, and integer", "Expected a floating point", "expected aweights", "on a bool tensor is not supported", "does not support uint8", "to have one of the following scalar types", "Quantize only works", "may not be a boolean", "stft(", "support tensors of type"]),
        "PyTorch's CPU has not implemented the function for the dtype; here the dtypes' rule is one for all functions";
    "numbers as operands": "maximum minimum fmax fmin atan2 hypot logaddexp logaddexp2 igamma igammac heaviside gcd lcm ldexp logical_and logical_or logical_xor"
        |c| c.there() && c.number() && c.said(&["must be Tensor, not"]),
        "every function of two operands takes a number for one of them; in PyTorch some do";
    "a number keeps its value": "" |c| c.here() && c.refused_as("dtype") && c.says(&["does not fit", "the float"]),
        "a number never changes its value on its way into a tensor: 300 is no u8, 0.5 no integer, 3 no bool. PyTorch truncates, wraps or makes it true";
    "ends keep their values": "linspace logspace" |c| c.asked_for(|d| !d.is_float()) && (c.there() || c.is(ProgramDifference::Values)),
        "the ends of a line of integers keep their fractions; PyTorch truncates them first, or refuses what the dtype does not hold";
    "windows are rounded once": "hann_window hamming_window blackman_window bartlett_window kaiser_window" |c| c.asked_for(|d| d.is_float() && d.size() == 2) && c.nearly_as(&[DType::F16, DType::BF16]),
        "a window of 16 bits is computed in f64 and rounded once; in PyTorch each step is rounded";
    "complex pairs of any dtype": "conj real imag complex_angle complex_abs complex_mul fft ifft irfft fft2 ifft2 irfft2 fftn ifftn irfftn hfft hfftn hfft2 polar complex istft"
        |c| c.there() && c.said(&["view_as_complex", "Expected both inputs to be", "Expected object of scalar type", "Unsupported dtype"]),
        "complex numbers are pairs along the last axis, of any dtype that promotes to a float";
    "transforms of 32 and 64 bits": "complex_abs fft ifft fft2 ifft2 rfft irfft fftn ifftn rfftn hfft ihfft stft istft rfft2"
        |c| c.here() && c.says(&["transforms are made of f32 and f64"]),
        "transforms are of f32 and f64; of 16 bits PyTorch has them for powers of two";
    "a write keeps the dtype": "with_i with_i_added slice_scatter select_scatter diagonal_scatter as_strided_scatter update_slice masked_fill_with index_add index_put"
        |c| c.here() && c.mixed() && c.refused_as("dtype"),
        "what is written has the dtype of what it is written to; PyTorch casts in some of these, and silently loses what does not fit";
    "a loss in the wider dtype": "binary_cross_entropy_with_logits" |c| c.mixed() && (c.is(ProgramDifference::Dtype) || c.nearly()),
        "logits and targets meet in the wider dtype; PyTorch's result has the target's, even where that is narrower";
    "losses of integers": "cosine_embedding_loss margin_ranking_loss triplet_margin_loss triplet_margin_with_distance_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div soft_margin_loss poisson_nll_loss binary_cross_entropy_with_logits"
        |c| c.here() && c.any_int() && c.says(&["floats are needed", "dtypes differ"]),
        "losses are of floats; what PyTorch happens to compute of integers is refused";
    "bools of a loss are numbers": "gaussian_nll_loss margin_ranking_loss triplet_margin_loss triplet_margin_with_distance_loss cosine_embedding_loss multilabel_soft_margin_loss l1_loss poisson_nll_loss hinge_embedding_loss kl_div tanhshrink huber_loss smooth_l1_loss mse_loss soft_margin_loss binary_cross_entropy_with_logits"
        |c| c.there() && c.any_bool() && c.said(&["Subtraction, the `-` operator", "not implemented for"]),
        "in functions of floats a bool is 0 or 1, as in all others";
    "false subtracted": "sub rsub" |c| c.there() && c.flag() && c.any(|d| d != DType::Bool),
        "a Rust bool beside numbers is a number; PyTorch refuses it in subtractions only";
    "data is not read": "ctc_loss binary_cross_entropy gaussian_nll_loss multilabel_margin_loss cov fake_quantize_per_channel embedding_bag"
        |c| c.there() && c.said(&["Expected input_lengths", "Expected target_lengths", "offsets[", "between 0 and 1", "negative entry", "out of range", "cannot be negative", "must be between", "must be positive"]),
        "whether all targets are probabilities, all variances positive or all steps in range is not looked up: that would wait for the device";
    "mixed dtypes meet": "cartesian_prod meshgrid histogram instance_norm group_norm batch_norm_inference layer_norm bilinear isclose fractional_max_pool histogramdd instance_norm_statistics batch_norm batch_norm_training"
        |c| c.there() && c.mixed(),
        "the dtypes promote as in all other functions, or nothing of them meets";
    "nothing is multiplied": "matmul mm bmm mv dot einsum gather cdist addmm inner linear outer matrix_power multi_dot tensordot tensordot_last kron vecdot addbmm baddbmm addmv bilinear softmin softmax log_softmax glu logcumsumexp quantile avg_pool1d grid_sample instance_norm"
        |c| (c.here() || c.is(ProgramDifference::Dtype)) && c.empty() && (c.mixed() || c.any_int() || c.short() == "gather"),
        "without elements PyTorch does not look at the dtypes; here a call is right or wrong whatever its sizes";
    "nothing is factored": "cholesky_ex lu lu_factor lu_factor_ex eigvalsh eigh svdvals svd matrix_exp cond cholesky qr_mode matrix_norm matrix_norm_keepdim svd_full" |c| c.here() && c.empty() && c.refused_as("dtype"),
        "without elements PyTorch does not look at the dtype of a matrix; here it is f32 or f64 whatever its size";
    "factors of 32 and 64 bits": "matrix_exp" |c| c.here() && c.says(&["factored in f32 and f64"]),
        "matrices are factored in f32 and f64; PyTorch has the exponential of 16 bits, too";
    "a product holds its operands": "matmul_to" |c| c.here() && c.says(&["whose values"]),
        "the dtype of a product holds the values of its operands, or they are cast before it";
    "averages of integers": "mean mean_keepdim std std_keepdim var var_keepdim std_mean var_mean var_mean_keepdim std_mean_keepdim nanmean nanmean_keepdim"
        |c| c.there() && c.any_int(),
        "functions of floats take integers as f32, averages too";
    "solving promotes nothing": "solve_triangular solve" |c| c.here() && c.mixed() && c.refused_as("dtype"),
        "both sides of an equation have one dtype, or their cast is said; PyTorch checks this for some";
    "bools have no sign": "sign sgn square pow rpow" |c| c.here() && c.any_bool() && c.says(&["takes numbers, not bool"]),
        "functions of numbers take no bools; PyTorch's answer for them is a bool or an i64, by function";
    "convolutions and pools are of floats": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool"
        |c| c.here() && c.any_int() && c.refused_as("dtype"),
        "windows are summed and averaged in floats only";
    "pictures of integers": "interpolate" |c| c.here() && c.any_int() && c.refused_as("dtype"), "what is resized is of floats; PyTorch rounds pictures of integers in some modes, too";
    "places are integers": "embedding_bag" |c| c.here() && (c.refused_as("dtype") || c.says(&["a vector of integer offsets"])), "an index is of integers; PyTorch takes bools in this function, and floats where the table is of integers: as if both were swapped";
    "eight axes": "kron expand repeat tile reshape unsqueeze stack unflatten diag_embed unfold" |c| c.here() && c.says(&["at most 4 axes", "at most 8 axes"]), "a tensor has eight axes at most, and a Kronecker product twice those of its factors on its way";
    "pivots of NaN": "lu lu_factor lu_factor_ex lu_unpack ldl_factor ldl_factor_ex ldl_solve" |c| (c.computed() || c.there() && c.said(&["is zero and using it on lu_solve"])) && c.not_a_number(), "which row has the largest element is nobody's promise where one is NaN";
    "a picture has elements": "interpolate" |c| c.here() && c.refused_as("argument"), "a picture is resized to at least one element along each axis; one mode of PyTorch gives nothing of nothing";
    "windows of nothing": "unfold" |c| c.there() && c.said(&["possibly 0 batch size"]), "windows of an empty picture's padding are zeros; PyTorch refuses it";
    "an end is a place": "slice" |c| c.here() && c.refused_as("index"), "a range ends within its axis; PyTorch cuts it off";
    "matched axes have one size": "tensordot_last tensordot" |c| c.here() && c.says(&["matched axes"]), "axes of a product that meet have one size; PyTorch repeats one of size 1";
    "batches are summed once": "addbmm baddbmm" |c| c.is(ProgramDifference::Values) && c.any(|d| d.is_float() && d.size() == 2) && c.nearly(), "a sum with products of 16 bits is rounded once; PyTorch rounds after each batch and each factor";
    "labels are integers of classes": "ctc_loss" |c| (c.here() && (c.refused_as("dtype") || c.refused_as("index"))) || (c.there() && c.said(&["Expected tensor to have size"])),
        "labels and lengths are integers below the number of classes, and as many as the lengths say or more; PyTorch takes floats, and looks at the number alone";
    "segments within the axis": "segment_reduce" |c| c.here() && c.refused_as("index"), "the offsets of segments end at the end of the axis; PyTorch leaves out what is behind them";
    "norms are rounded once": "instance_norm instance_norm_statistics group_norm layer_norm rms_norm batch_norm batch_norm_training" |c| c.is(ProgramDifference::Values) && c.any(|d| d.is_float() && d.size() == 2) && c.nearly(), "a norm of 16 bits is computed in f32 and rounded once; PyTorch rounds on its way";
    "modes for any number of axes": "interpolate" |c| c.there() && c.said(&["mode needs"]), "a mode is one for one, two and three axes; PyTorch has a word for each number of them";
    "integers beside 16 bits": "cosine_embedding_loss triplet_margin_loss triplet_margin_with_distance_loss gaussian_nll_loss" |c| c.is(ProgramDifference::Dtype) && c.any_int(), "an integer beside a float of 16 bits leaves its dtype; PyTorch's steps make f32 of the integer first";
    "orders below 0": "polygamma" |c| c.there() && c.said(&["negative n"]), "the order may be a tensor, so it is not looked up: of a negative one there is no value, NaN";
    "coordinates of each row": "gradient" |c| c.there() && c.said(&["to have one dimension"]), "coordinates may differ from row to row";
    "vectors of zero": "svdvals svd svd_full matrix_norm matrix_norm_keepdim" |c| c.computed() && c.without_rank(), "a singular value of 0 has no direction in which it grows: whose vectors belong to it is anybody's choice";
    "one weight for each feature": "linear batch_norm batch_norm_training linear_cross_entropy" |c| c.here() && c.refused_as("shape"), "weights and biases have one number for each feature; PyTorch repeats a bias";
    "places of NaN": "unique max_pool3d max_pool2d max_pool1d" |c| c.is(ProgramDifference::Values) && c.not_a_number(), "NaN is the largest of all, as in sorting; PyTorch's order of it is none";
    "a condition is bool": "where_" |c| c.here() && c.says(&["the condition of select is bool"]), "a condition is of bools; PyTorch takes u8, too, which it warns of";
    "integers that are stored": "" |c| c.here() && c.refused_as("dtype") && c.says(&["is a storage dtype"]), "i16 and the unsigned integers beside u8 are stored and cast; PyTorch computes in them where i8 meets u8";
    "steps keep their fractions": "dequantize" |c| c.is(ProgramDifference::Values) && c.tensors().iter().any(|a| a.dtype.is_float()), "steps may be floats, as what is trained beside them; PyTorch's quantized tensors truncate them";
    "outputs of no channels": "conv1d conv2d conv3d" |c| c.is(ProgramDifference::Shape) && c.empty(), "a sum over no channels is the bias, for each output; PyTorch gives as many outputs as inputs: none";
    "pictures of nothing": "interpolate group_norm" |c| c.there() && c.empty() && c.said(&["Non-empty", "HxW to be greater than 0"]), "without channels or places there is nothing to compute, and the result is empty, too";
    "rows of nothing": "block_diag" |c| c.is(ProgramDifference::Gradient) && c.empty(), "a block without columns has rows; PyTorch's gradient leaves them out and is that of other rows";
    "averages of bools": "index_reduce scatter_reduce" |c| c.is(ProgramDifference::Dtype) && c.any_bool() && c.empty(), "an average of bools is a number, where nothing is averaged, too";
    "indices of nothing": "index_select" |c| c.there() && c.empty() && c.said(&["out of DATA bounds"]), "where nothing is selected, no index is looked up";
    "strides of a result": "as_strided as_strided_scatter" |c| c.computed() && matches!(c.call.args.first(), Some(ProgramArg::Result(..))), "the strides of a tensor are those of its shape; in PyTorch they are those that the last call left";
    "remainders of large numbers": "fmod remainder" |c| c.is(ProgramDifference::Values) && c.extreme() && c.wrong.iter().all(|(here, there)| here.is_finite() && there.is_nan()), "the remainder is exact however large the quotient is; PyTorch's quotient overflows";
    "an iteration's vector": "lobpcg" |c| c.is(ProgramDifference::Gradient) && c.wrong.iter().all(|(here, there)| (here - there).abs() <= 1e-4), "the gradient of an eigenvalue is the product of its vector with itself, and exact to the last digits; PyTorch's is of the vector at which its iteration stopped";
    "roundings beside the largest": "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 fftn ifftn rfftn irfftn hfftn ihfftn stft istft eigvalsh svdvals" |c| c.is(ProgramDifference::Values) && c.rounded(), "each result is as exact as all elements together, and far smaller than they are";
    "roundings of a quotient": "normalize" |c| c.is(ProgramDifference::Gradient) && c.rounded_quotients(), "the gradient is a difference of two quotients, each as large as one over the smallest element, that cancel";
    "determinants of nothing": "det logdet slogdet" |c| c.computed() && (c.without_rank() || c.tensors().iter().any(|a| (0..a.len()).any(|k| !a.scalar(k).to_f64().is_finite()))), "the determinant of a matrix without an inverse is a rounding, and that of infinities none, by the order of the steps 0 or not";
    "no inverse": "logdet slogdet" |c| c.is(ProgramDifference::Gradient) && c.wrong.is_empty() && c.without_rank(), "the gradient of a determinant is by an inverse: where there is none that is an error, and no NaN";
    "a factor of a rounding": "cholesky cholesky_ex cholesky_inverse cholesky_solve" |c| c.is(ProgramDifference::Values) && c.symmetric_without_rank() || (c.here() || c.there()) && c.symmetric_without_rank() && (c.said(&["positive-definite", "singular"]) || c.says(&["positive"])),
        "the last pivot of a matrix without an inverse is a rounding, which decides whether there is a factor";
    "roots of a rounding": "cholesky cholesky_ex" |c| c.is(ProgramDifference::Values) && c.roots_of_roundings(), "the last pivot of a matrix without an inverse is a rounding, of which this is the root";
    "places of no number": "grid_sample" |c| c.computed() && c.tensors().get(1).is_some_and(|a| (0..a.len()).any(|k| !a.float(k).is_finite())), "where no number says the place it is outside of the picture; PyTorch reflects an infinity into it";
    "slopes at infinity": "log_ndtr" |c| c.is(ProgramDifference::Gradient) && c.infinite(), "the slope at -inf is the limit, inf; PyTorch divides 0 by 0";
    "an overflow is infinite": "modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1" |c| c.is(ProgramDifference::Values) && c.infinite() && c.denormal(), "the function of the least numbers is infinite; PyTorch subtracts infinities";
    "the least shape": "igamma igammac" |c| c.computed() && c.denormal(), "the shape is nearly 0: all weight is at 0; PyTorch's series divides by it, and loses it";
    "squares at the end of the range": "std std_keepdim std_mean std_mean_keepdim var var_keepdim var_mean var_mean_keepdim atan2 logcumsumexp" |c| c.is(ProgramDifference::Gradient) && c.extreme(), "the gradient is by scaled numbers, whose squares are numbers; PyTorch's squares overflow, and what is divided by them is 0 or NaN";
    "blanks among labels": "ctc_loss" |c| c.is(ProgramDifference::Gradient) && c.tensors().get(1).is_some_and(|a| (0..a.len()).any(|k| a.scalar(k).to_f64() == 0.0)), "a label is no blank, which PyTorch says, too, and looks at neither";
    "norms in the widest dtype": "cosine_similarity cosine_embedding_loss" |c| c.is(ProgramDifference::Values) && c.mixed() && (c.extreme() || c.zero()), "both sides are promoted before their norms are taken; PyTorch's norm of 16 bits overflows, or vanishes with its smallest size";
    "products have their dtype": "addmm addmv baddbmm" |c| c.is(ProgramDifference::Values) && c.any(|d| d.is_float() && d.size() == 2) && c.nearly(), "a product of 16 bits has 16 bits before it is scaled and added; PyTorch's kernel keeps 32 in some layouts";
    "u8 counts": "index_put i with_i with_i_added" |c| c.tensors().iter().skip(1).any(|a| a.dtype == DType::U8) && (c.computed() || c.is(ProgramDifference::Shape)), "an index of u8 is of numbers; PyTorch takes it for a mask, which it warns of";
    "one count for each": "repeat_interleave_by" |c| c.here() && c.says(&["one integer for each of the"]), "repetitions are one number for each element, or one Rust number; PyTorch repeats a tensor of one";
    "equal singular values": "svd svd_full svdvals cond matrix_norm matrix_norm_keepdim" |c| c.computed() && c.equal_singular_values(), "which vectors belong to equal singular values, and so which gradient, is anybody's choice";
    "a block of zero": "ldl_factor" |c| c.here() && c.says(&["the matrix is singular: block"]), "a block of zero is an error, and a number of the function with `_ex`; PyTorch's is a rounding of it, or passes";
    "a start of nothing": "lobpcg" |c| c.there() && c.zero() && c.said(&["0.0 cannot be raised"]), "from zeros there is no way, and no error, either";
    "gradients by zero pivots": "lu lu_factor lu_factor_ex" |c| c.is(ProgramDifference::Gradient) && c.infinite() && c.without_rank(), "a gradient by a pivot of zero is infinite or NaN by the order of the steps";
    "ranks beside the largest": "matrix_rank matrix_rank_with" |c| c.is(ProgramDifference::Values) && c.extreme(), "numbers are scaled before they are squared, so that the largest has a rank; PyTorch's singular values overflow";
    "too few vectors": "eig" |c| c.is(ProgramDifference::Gradient) && c.infinite(), "a matrix that has fewer vectors than values has no gradient";
    "a smaller index": "scatter_reduce" |c| c.is(ProgramDifference::Gradient) && c.wrong.iter().all(|w| w.0 == 0.0), "what no index takes has no gradient; PyTorch repeats that of what is taken over all of the source";
    "one factor for a batch": "ormqr" |c| c.there() && c.said(&["same number of dimensions"]), "a product takes one factor for each matrix of a batch, or one for all";
    "multiples that wrap": "lcm" |c| c.is(ProgramDifference::Values) && c.opposite(), "a multiple that its dtype does not hold is wrapped as every product is; PyTorch takes the sign of what was wrapped away";
    "a median is an element": "median_dim median_dim_keepdim nanmedian_dim nanmedian_dim_keepdim" |c| c.is(ProgramDifference::Values) && c.foreign(), "PyTorch's median of integers is now and then no element at all";
    "no slope at NaN": "clamp softshrink margin_ranking_loss hinge_embedding_loss triplet_margin_loss triplet_margin_with_distance_loss cosine_embedding_loss hardshrink hardsigmoid elu" |c| c.is(ProgramDifference::Gradient) && c.not_a_number(),
        "where an operand is NaN it is nobody's promise which of the choices has the gradient";
    "outputs of nothing": "conv_transpose1d conv_transpose2d conv_transpose3d conv1d conv2d conv3d" |c| c.there() && c.said(&["Output size is too small", "Only zero batch or zero channel", "expected weight to be at least 1"]), "an output without elements is computed in every dtype; of PyTorch's kernels those for f32 and bf16 do so";
    "products of bools": "einsum" |c| c.is(ProgramDifference::Dtype) && c.any_bool(), "a product of bools is bool, as of matrices; PyTorch counts in this function";
    "any integer is an index": "linear_cross_entropy put embedding_bag multilabel_margin_loss gather scatter_add scatter_value scatter scatter_reduce take take_along_dim index_select index_fill index_copy index_add one_hot embedding nll_loss cross_entropy multi_margin_loss nonzero i with_i with_i_added repeat_interleave_by max_unpool index_put index index_reduce"
        |c| c.there() && (c.said(&["int64", "Long", "long tensor", "IntArrayRef", "dtype of indices", "tensors used as indices", "index tensor", "too many indices", "The shape of the mask", "target dtype to be"]) || c.indexed_by_tensors()),
        "an index is of any integer dtype; PyTorch wants i64 in most functions";
    "a scatter of nothing": "scatter_add scatter_reduce scatter index_add index_copy index_reduce" |c| c.there() && (c.empty() || c.said(&["self.dtype to be equal to src.dtype"])) ,
        "where nothing is scattered, nothing is refused";
    "a scalar is one element": "index_reduce repeat_interleave_by repeat_interleave index_select cosine_similarity index_add index_copy index_fill take_along_dim gather unfold mt adjoint diff scatter_add vander"
        |c| c.scalar() && !c.computed(),
        "of a tensor without axes PyTorch's functions differ: here it has one axis for reductions, and none for what needs a place in it";
    "narrow integers": "cumulative_trapezoid trapezoid istft" |c| (c.computed() || c.is(ProgramDifference::Dtype) && c.empty()) && c.any_int(),
        "integers become floats before they are added; PyTorch adds u8 and wraps";
    "spacing promotes": "gradient" |c| c.mixed() && (c.computed() || c.is(ProgramDifference::Dtype)),
        "the spacing is computed with in the promoted dtype; PyTorch computes the coefficients in its own, or leaves the dtype of what is spaced";
    "a float bound makes floats": "hardtanh threshold" |c| c.any_int() && c.is(ProgramDifference::Dtype),
        "bounds that are no numbers of the dtype make floats of integers; PyTorch truncates them";
    "a conversion out of range": "cast type_as quantize" |c| c.is(ProgramDifference::Values) && c.out_of_range(),
        "a float outside an integer's range saturates and NaN is 0, as in Rust; in PyTorch it is undefined";
    "a step by bits": "nextafter" |c| c.is(ProgramDifference::Gradient),
        "the next number is found by bits, through which nothing is differentiated";
    "outside the domain": "acosh igamma igammac kl_div" |c| c.is(ProgramDifference::Gradient) && c.infinite(),
        "where the function is NaN its derivative means nothing";
    "float factors of integers": "addmv addmm addbmm baddbmm addr addcmul index_add" |c| c.any_int() && (c.is(ProgramDifference::Values) || c.is(ProgramDifference::Dtype) || c.here() || c.there()),
        "a float factor makes floats of integers, and a whole one numbers of bools; PyTorch truncates the factor or refuses it";
    "coordinates that are equal": "gradient" |c| c.computed() && c.tied(),
        "between equal coordinates there is no slope: infinite, or NaN";
    "edges that fall": "histogram histogramdd" |c| c.is(ProgramDifference::Values), "edges of bins are in order; those of a program are not always";
    "numbers out of an axis": "take_along_dim" |c| c.here() && c.refused_as("index"),
        "a number beyond the axis is refused; PyTorch takes its remainder in this function";
    "nothing has no median": "median nanmedian" |c| c.here() && c.empty() && c.any_int(),
        "of no integers PyTorch gives the smallest number, and true of no bools";
    "a bias has the product's dtype": "linear linear_cross_entropy conv_tbc conv_transpose1d" |c| c.here() && c.mixed() && c.refused_as("dtype"),
        "input, weight and bias of a layer have one dtype; PyTorch adds a bias of another in some layouts";
    "one sample without an axis": "nll_loss histogramdd" |c| c.here() && c.refused_as("shape") || c.there() && c.said(&["at least 2 dimensions"]),
        "one sample and its target have no axis for samples; PyTorch takes one of size 1, or wants it";
    "sums of one element": "einsum" |c| c.here() && c.refused_as("dtype"),
        "a product has one dtype; PyTorch multiplies element by element, where dtypes promote, if the sum has one element";
    "Bessel functions are exact": "i1e airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1" |c| c.computed(),
        "near their zeros and for large arguments PyTorch's lose five digits and more, in f64 too (j0 of 5.6: 4e-6, by the series); ours do not";
    "waves of large numbers": "sinc" |c| c.is(ProgramDifference::Values) && c.tensors().iter().any(|a| (0..a.len()).any(|k| a.scalar(k).to_f64().abs() > 1e4)),
        "the argument is reduced exactly here, and in f32 there";
    "equal bounds": "clamp" |c| c.is(ProgramDifference::Gradient) && c.tied(), "the gradient of two bounds that are one is shared by them";
    "halves are equal": "geglu swiglu" |c| c.here() && c.refused_as("shape"), "an axis that is halved has an even size";
    "ldexp scales": "ldexp" |c| c.infinite(), "ldexp scales by powers that are larger than the dtype, too: 0 stays 0; PyTorch multiplies by infinity";
    "elements are cast first": "mean_dtype sum_dtype" |c| c.is(ProgramDifference::Values) && c.asked_for(|d| c.any(|own| own != d)), "each element is rounded to the dtype before it is added, as the documentation of both says; PyTorch's kernel adds wider ones";
    "powers of zero": "rpow pow" |c| c.is(ProgramDifference::Gradient) && c.infinite() && (c.short() == "rpow" || c.flag()), "0 to any power above 0 is 0 nearby, and anything to the power false is 1: the gradient is 0, and not 0 times an infinity";
    "a division by zero": "addcdiv" |c| c.is(ProgramDifference::Gradient) && c.zero() && c.infinite(), "a gradient is infinite or NaN by the order of its factors";
    "steps below zero": "fake_quantize_per_channel" |c| c.is(ProgramDifference::Values), "the step of a quantization is positive, which is not looked up";
    "u8 has no sign": "addcmul atan2 poisson_nll_loss margin_ranking_loss cosine_embedding_loss triplet_margin_with_distance_loss multilabel_soft_margin_loss zeta soft_margin_loss hinge_embedding_loss polygamma gaussian_nll_loss triplet_margin_loss addcdiv" |c| c.computed() && c.any_int(), "integers become floats before they are negated; PyTorch negates u8 and wraps";
    "a source is needed": "masked_scatter" |c| c.here() && c.empty(), "without a source nothing can be scattered, whatever the mask turns out to be";
    "features are counted": "batch_norm_inference scaled_dot_product_attention batch_norm batch_norm_training instance_norm_statistics" |c| c.here() && (c.empty() || c.says(&["as many keys as values"])), "shapes and dtypes are looked at without samples, too, and keys are as many as values, which one of PyTorch's kernels does not look at";
    "integers of functions of floats": "softsign tanhshrink local_response_norm" |c| c.any_int() && !c.here(),
        "integers become floats before the first step; there some steps are of integers";
    "composites in the widest dtype": "huber_loss ldexp cosine_embedding_loss triplet_margin_loss triplet_margin_with_distance_loss gaussian_nll_loss multilabel_soft_margin_loss margin_ranking_loss clip_grad_norm cosine_similarity kl_div poisson_nll_loss cov istft" |c| c.is(ProgramDifference::Values) && c.mixed() && c.nearly(),
        "both sides are promoted first; there each is divided by its norm in its own dtype";
    "a loss repeats nothing by accident": "cosine_embedding_loss margin_ranking_loss mse_loss l1_loss smooth_l1_loss huber_loss multilabel_soft_margin_loss soft_margin_loss kl_div poisson_nll_loss binary_cross_entropy_with_logits hinge_embedding_loss gaussian_nll_loss"
        |c| c.here() && c.refused_as("shape"),
        "a prediction and a target that are both repeated are a mistake; PyTorch warns, or broadcasts silently";
    "losses broadcast": "margin_ranking_loss soft_margin_loss hinge_embedding_loss cosine_embedding_loss gaussian_nll_loss triplet_margin_loss"
        |c| c.there() && c.said(&["same dimension", "doesn't match the broadcast shape", "must match", "expand", "size"]),
        "tensors of a loss broadcast";
    "what failed has no value": "cholesky_ex inv_ex ldl_factor_ex solve_ex" |c| c.is(ProgramDifference::Values) && c.failed(), "where the number of a failed step is returned the factor is NaN; PyTorch leaves what it has come to";
    "equal eigenvalues": "eigh eig eigvalsh" |c| c.is(ProgramDifference::Values) && (c.any_int() || c.equal_results()) && c.call.name != "Tensor::eigvalsh" || c.is(ProgramDifference::Gradient) && c.equal_results(), "which vectors belong to equal eigenvalues, as matrices of small integers have them, and so which gradient, is anybody's choice";
    "roots of positive definite matrices": "matrix_sqrth" |c| c.here() && c.refused_as("domain"), "a matrix with a negative eigenvalue has no root, which is refused; PyTorch gives NaN";
    "a padded volume": "avg_pool3d" |c| c.there() && c.said(&["smaller than kernel size"]), "a window fits into what is padded, as along one and two axes; PyTorch looks at the volume without its padding";
    "a gradient of a strided write": "as_strided_scatter" |c| c.is(ProgramDifference::Gradient), "what is written over has no gradient; PyTorch's has only that";
    "no matrix of NaN": "svd_full cond svd svdvals eigh eigvalsh pinv matrix_rank matrix_norm matrix_norm_keepdim lstsq eig eigvals" |c| (c.here() || c.there()) && c.extreme() && (c.refused_as("domain") || c.said(&["non-finite values", "failed to converge"])),
        "a decomposition that does not converge is an error, and no NaN";
    "faults there": "" |c| c.said(&["view size is not compatible", "INTERNAL ASSERT FAILED"]), "PyTorch refuses a view of its own, or says that it is wrong";
    "a negative magnitude": "polar" |c| c.is(ProgramDifference::Gradient), "the derivative by the magnitude is the direction, of a negative one, too; PyTorch turns it around";
    "an order with NaN": "searchsorted bucketize" |c| c.is(ProgramDifference::Values) && c.not_a_number(), "NaN is the largest of all, here as in sorting; there it depends on where a search begins";
    "a mask is broadcast to the tensor": "masked_scatter" |c| c.here() && c.says(&["expand"]), "the result has the tensor's shape; PyTorch broadcasts the tensor to the mask";
    "coordinates along one axis": "gradient" |c| c.here() && c.refused_as("shape"), "coordinates are as many as elements along the axis, which is refused without elements, too";
    "axes are looked at": "roll flip cat diff vecdot" |c| c.here() && c.refused_as("axis"), "an axis that is not there is refused of empty tensors and of differences of order 0, too";
    "equal elements": "scatter_reduce index_reduce max_pool1d max_pool2d max_pool3d kthvalue kthvalue_keepdim median nanmedian median_dim nanmedian_dim median_dim_keepdim nanmedian_dim_keepdim mode mode_keepdim topk sort msort nanquantile quantile nanquantile_keepdim quantile_keepdim quantiles quantiles_keepdim cummax cummin amax amin amax_keepdim amin_keepdim max_dim min_dim max_dim_keepdim min_dim_keepdim segment_reduce"
        |c| c.is(ProgramDifference::Gradient) && (c.tied() || c.not_a_number()),
        "which of equal elements takes the gradient is nobody's promise";
    "extremes of NaN": "ctc_loss nanmean_keepdim selu prod_keepdim cumprod var_mean_keepdim std_mean_keepdim cosine_embedding_loss amax amin amax_keepdim aminmax nanmean var std var_mean std_mean var_keepdim std_keepdim median nanquantile quantile smooth_l1_loss huber_loss logsumexp logcumsumexp prod triplet_margin_loss triplet_margin_with_distance_loss"
        |c| c.infinite(),
        "where a NaN or an infinity is, its gradient is NaN there by 0 * inf, and 0 here where nothing flows, or the other way round";
    "poles": "digamma trigamma polygamma" |c| c.infinite(),
        "at a pole the result is the limit, and not a large number by rounding";
    "ends of the range": "tensorsolve svd svdvals eigh eigvalsh geqrf ormqr lstsq solve_ex cross cholesky_solve qr mse_loss nansum nansum_keepdim softsign zeta lu_solve householder_product aminmax_keepdim airy_ai ihfft2 ihfftn irfftn hfftn hfft2 irfft2 conv_tbc conv3d conv_transpose1d conv_transpose2d conv_transpose3d avg_pool3d batch_norm batch_norm_training instance_norm_statistics linear_cross_entropy binary_cross_entropy_with_logits qr_mode lu lu_factor lu_factor_ex eig eigvals matrix_exp matrix_norm matrix_norm_keepdim vector_norm_keepdim pairwise_distance_keepdim quantiles quantiles_keepdim quantile_keepdim ldl_factor ldl_factor_ex fold vander local_response_norm matrix_power multi_dot kron inner addmm addmv addbmm baddbmm addr vecdot dot mm bmm mv outer einsum linear i0 i1 rfft rfft2 fft ifft fft2 ifft2 irfft fftn ifftn rfftn hfft ihfft trapezoid scaled_dot_product_attention conv1d conv2d matmul cosine_similarity normalize vector_norm cdist pdist addcmul addcdiv renorm corrcoef cov group_norm layer_norm instance_norm rms_norm batch_norm_inference gelu logdet det slogdet inv cond gradient softmax log_softmax softmin stft istft complex_mul complex_abs complex_angle avg_pool1d avg_pool2d lp_pool1d lp_pool2d lp_pool3d quantile nanquantile copysign grid_sample interpolate bilinear fake_quantize_per_tensor fake_quantize_per_channel lu_unpack sum_to_size geglu"
        |c| c.extreme() && (c.infinite() || c.cancelled()),
        "beside infinities, NaN and numbers whose squares overflow the order of the steps decides whether NaN, an infinity or, of large terms, a rounding is left";
    "a NaN passes": "igammac igamma zeta mode_keepdim mode multi_margin_loss" |c| c.computed() && c.not_a_number(), "a function of NaN is NaN";
    "nothing to choose from": "nanquantile quantile nanquantile_keepdim quantile_keepdim quantiles quantiles_keepdim mode_keepdim kthvalue_keepdim median_dim vector_norm_keepdim median mode kthvalue avg_pool1d lp_pool1d max_pool1d avg_pool2d lp_pool2d normalize vector_norm max_pool2d max_pool3d batch_norm batch_norm_training" |c| c.there() && c.empty(),
        "a result without elements needs no element to choose";
};
