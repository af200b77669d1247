//! The rows of the scalar table: everything that the project knows about a function of one or two numbers. They are one macro
//! so that each crate takes from a row what is its own: this one meaning, text, names and accuracy, the crate of tensors the
//! method and the gradient. A function is added here and nowhere else.

/// Hands the rows of the functions of one number to the macro that is named.
#[doc(hidden)]
#[macro_export]
macro_rules! unary_rows {
    ($then:ident) => {
        $then! {
            /// The absolute value. The gradient at 0 is 0.
            Abs abs { class: Number, exact: f64::abs, int: Some(i64::wrapping_abs), saves: Input, grad: Some(|g, x, _| g * x.sign()),
                c: "fabs(x)", wgsl: "abs(x)", onnx: Some("Abs"), domain: ALL, kinks: &[0.0], int_text: "adm_iabs_T(x)" }
            /// The negative.
            Neg neg { class: Number, exact: |x| -x, int: Some(i64::wrapping_neg), saves: Nothing, grad: Some(|g, _, _| g.neg()),
                c: "-x", wgsl: "-x", onnx: Some("Neg"), domain: ALL, kinks: &[], int_text: "T(0) - x" }
            /// -1, 0 or 1 by the sign; 0 for NaN, as PyTorch's.
            Sign sign { class: Number, exact: |x| (x > 0.0) as u8 as f64 - (x < 0.0) as u8 as f64, int: Some(i64::signum), saves: Nothing, grad: Some(|g, _, _| g.zeros_like()),
                c: "adm_sign(x)", wgsl: "adm_sign(x)", onnx: Some("Sign"), domain: ALL, kinks: &[0.0], int_text: "adm_isign_T(x)" }
            /// x·x.
            Square square { class: Number, exact: |x| x * x, int: Some(|x| x.wrapping_mul(x)), saves: Input, grad: Some(|g, x, _| g * (x * 2.0)),
                c: "x * x", wgsl: "x * x", onnx: None, domain: ALL, kinks: &[] }
            /// Down to a whole number.
            Floor floor { class: Number, exact: f64::floor, int: Some(|x| x), saves: Nothing, grad: Some(|g, _, _| g.zeros_like()),
                c: "floor(x)", wgsl: "floor(x)", onnx: Some("Floor"), domain: ALL, kinks: &[-10.0, -9.0, -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0], int_text: "x" }
            /// Up to a whole number.
            Ceil ceil { class: Number, exact: f64::ceil, int: Some(|x| x), saves: Nothing, grad: Some(|g, _, _| g.zeros_like()),
                c: "ceil(x)", wgsl: "ceil(x)", onnx: Some("Ceil"), domain: ALL, kinks: &[-10.0, -9.0, -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0], int_text: "x" }
            /// To the nearest whole number, halves to the even one.
            Round round { class: Number, exact: f64::round_ties_even, int: Some(|x| x), saves: Nothing, grad: Some(|g, _, _| g.zeros_like()),
                c: "rint(x)", wgsl: "round(x)", onnx: Some("Round"), domain: ALL, kinks: &[-9.5, -8.5, -7.5, -6.5, -5.5, -4.5, -3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5], int_text: "x" }
            /// Toward zero to a whole number.
            Trunc trunc { class: Number, exact: f64::trunc, int: Some(|x| x), saves: Nothing, grad: Some(|g, _, _| g.zeros_like()),
                c: "trunc(x)", wgsl: "trunc(x)", onnx: None, domain: ALL, kinks: &[-10.0, -9.0, -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0], int_text: "x" }
            /// x - trunc(x), with the sign of x.
            Frac frac { class: Float, exact: |x| x - x.trunc(), int: None, saves: Nothing, grad: Some(|g, _, _| g.clone()),
                c: "x - trunc(x)", wgsl: "x - trunc(x)", onnx: None, domain: ALL, kinks: &[-10.0, -9.0, -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0] }
            /// Degrees to radians: x · π/180.
            Deg2rad deg2rad { class: Float, exact: f64::to_radians, int: None, saves: Nothing, grad: Some(|g, _, _| g.deg2rad()),
                c: "adm_deg2rad(x)", wgsl: "adm_deg2rad(x)", onnx: None, domain: ALL, kinks: &[] }
            /// Radians to degrees: x · 180/π.
            Rad2deg rad2deg { class: Float, exact: f64::to_degrees, int: None, saves: Nothing, grad: Some(|g, _, _| g.rad2deg()),
                c: "adm_rad2deg(x)", wgsl: "adm_rad2deg(x)", onnx: None, domain: ALL, kinks: &[] }
            /// e to the x.
            Exp exp { class: Float, exact: f64::exp, int: None, saves: Output, grad: Some(|g, _, y| g * y),
                c: "exp(x)", wgsl: "adm_exp(x)", onnx: Some("Exp"), domain: ALL, kinks: &[] }
            /// 2 to the x.
            Exp2 exp2 { class: Float, exact: f64::exp2, int: None, saves: Output, grad: Some(|g, _, y| g * y * LN_2),
                c: "exp2(x)", wgsl: "exp2(x)", onnx: None, domain: ALL, kinks: &[] }
            /// exp(x) - 1, accurate near 0.
            Expm1 expm1 { class: Float, exact: f64::exp_m1, int: None, saves: Output, grad: Some(|g, _, y| g * (y + 1.0)),
                c: "expm1(x)", wgsl: "adm_expm1(x)", onnx: None, domain: ALL, kinks: &[] }
            /// The natural logarithm; NaN below 0, -inf at 0.
            Log log { class: Float, exact: f64::ln, int: None, saves: Input, grad: Some(|g, x, _| g / x),
                c: "log(x)", wgsl: "adm_log(x)", onnx: Some("Log"), domain: (1e-3, 10.0), kinks: &[] }
            /// The logarithm to base 2.
            Log2 log2 { class: Float, exact: f64::log2, int: None, saves: Input, grad: Some(|g, x, _| g / (x * LN_2)),
                c: "log2(x)", wgsl: "adm_log2(x)", onnx: None, domain: (1e-3, 10.0), kinks: &[] }
            /// The logarithm to base 10.
            Log10 log10 { class: Float, exact: f64::log10, int: None, saves: Input, grad: Some(|g, x, _| g / (x * LN_10)),
                c: "log10(x)", wgsl: "adm_log10(x)", onnx: None, domain: (1e-3, 10.0), kinks: &[] }
            /// ln(1 + x), accurate near 0.
            Log1p log1p { class: Float, exact: f64::ln_1p, int: None, saves: Input, grad: Some(|g, x, _| g / (x + 1.0)),
                c: "log1p(x)", wgsl: "adm_log1p(x)", onnx: None, domain: (-0.99, 10.0), kinks: &[] }
            /// The square root; NaN below 0.
            Sqrt sqrt { class: Float, exact: f64::sqrt, int: None, saves: Output, grad: Some(|g, _, y| g / (y * 2.0)),
                c: "sqrt(x)", wgsl: "adm_sqrt(x)", onnx: Some("Sqrt"), domain: (1e-3, 10.0), kinks: &[] }
            /// 1 / sqrt(x).
            Rsqrt rsqrt { class: Float, exact: |x| 1.0 / x.sqrt(), int: None, saves: Output, grad: Some(|g, _, y| g * (y * y * y) * -0.5),
                c: "1.0f / sqrt(x)", wgsl: "1.0 / adm_sqrt(x)", onnx: None, domain: (1e-3, 10.0), kinks: &[] }
            /// 1 / x.
            Reciprocal reciprocal { class: Float, exact: f64::recip, int: None, saves: Output, grad: Some(|g, _, y| (g * (y * y)).neg()),
                c: "1.0f / x", wgsl: "1.0 / x", onnx: Some("Reciprocal"), domain: (0.1, 10.0), kinks: &[] }
            /// The sine of x in radians.
            Sin sin { class: Float, exact: f64::sin, int: None, saves: Input, grad: Some(|g, x, _| g * x.cos()),
                c: "sin(x)", wgsl: "adm_sin(x)", onnx: Some("Sin"), domain: ALL, kinks: &[] }
            /// The cosine of x in radians.
            Cos cos { class: Float, exact: f64::cos, int: None, saves: Input, grad: Some(|g, x, _| (g * x.sin()).neg()),
                c: "cos(x)", wgsl: "adm_cos(x)", onnx: Some("Cos"), domain: ALL, kinks: &[] }
            /// The tangent of x in radians.
            Tan tan { class: Float, exact: f64::tan, int: None, saves: Output, grad: Some(|g, _, y| g * (y * y + 1.0)),
                c: "tan(x)", wgsl: "adm_tan(x)", onnx: Some("Tan"), domain: (-1.5, 1.5), kinks: &[] }
            /// The inverse sine, in radians; NaN outside [-1, 1].
            Asin asin { class: Float, exact: f64::asin, int: None, saves: Input, grad: Some(|g, x, _| g * one_minus_square(x).rsqrt()),
                c: "asin(x)", wgsl: "adm_asin(x)", onnx: Some("Asin"), domain: (-0.99, 0.99), kinks: &[] }
            /// The inverse cosine, in radians; NaN outside [-1, 1].
            Acos acos { class: Float, exact: f64::acos, int: None, saves: Input, grad: Some(|g, x, _| (g * one_minus_square(x).rsqrt()).neg()),
                c: "acos(x)", wgsl: "adm_acos(x)", onnx: Some("Acos"), domain: (-0.99, 0.99), kinks: &[] }
            /// The inverse tangent, in radians.
            Atan atan { class: Float, exact: f64::atan, int: None, saves: Input, grad: Some(|g, x, _| g / (x * x + 1.0)),
                c: "atan(x)", wgsl: "adm_atan(x)", onnx: Some("Atan"), domain: ALL, kinks: &[] }
            /// The hyperbolic sine.
            Sinh sinh { class: Float, exact: f64::sinh, int: None, saves: Input, grad: Some(|g, x, _| g * x.cosh()),
                c: "sinh(x)", wgsl: "adm_sinh(x)", onnx: Some("Sinh"), domain: ALL, kinks: &[] }
            /// The hyperbolic cosine.
            Cosh cosh { class: Float, exact: f64::cosh, int: None, saves: Input, grad: Some(|g, x, _| g * x.sinh()),
                c: "cosh(x)", wgsl: "adm_cosh(x)", onnx: Some("Cosh"), domain: ALL, kinks: &[] }
            /// The hyperbolic tangent.
            Tanh tanh { class: Float, exact: f64::tanh, int: None, saves: Output, grad: Some(|g, _, y| g * one_minus_square(y)),
                c: "tanh(x)", wgsl: "adm_tanh(x)", onnx: Some("Tanh"), domain: ALL, kinks: &[] }
            /// The inverse hyperbolic sine. Its gradient is 1 / hypot(x, 1), which does not overflow.
            Asinh asinh { class: Float, exact: libm::asinh, int: None, saves: Input, grad: Some(|g, x, _| g / x.hypot(1.0)),
                c: "asinh(x)", wgsl: "adm_asinh(x)", onnx: Some("Asinh"), domain: ALL, kinks: &[] }
            /// The inverse hyperbolic cosine; NaN below 1.
            Acosh acosh { class: Float, exact: |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }, int: None, saves: Input, grad: Some(|g, x, _| g / ((x - 1.0).sqrt() * (x + 1.0).sqrt())),
                c: "acosh(x)", wgsl: "adm_acosh(x)", onnx: Some("Acosh"), domain: (1.01, 10.0), kinks: &[] }
            /// The inverse hyperbolic tangent; NaN outside [-1, 1].
            Atanh atanh { class: Float, exact: libm::atanh, int: None, saves: Input, grad: Some(|g, x, _| g / one_minus_square(x)),
                c: "atanh(x)", wgsl: "adm_atanh(x)", onnx: Some("Atanh"), domain: (-0.99, 0.99), kinks: &[] }
            /// sin(πx) / (πx), 1 at 0.
            Sinc sinc { class: Float, exact: special::sinc, int: None, saves: Input, grad: Some(|g, x, _| g * x.sinc_derivative()),
                c: "adm_sinc(x)", wgsl: "adm_sinc(x)", onnx: None, domain: ALL, kinks: &[], narrow: |x| if (x * PI).abs() > F32_MAX { f64::NAN } else { special::sinc(x) } }
            /// The derivative of `Tensor::sinc`: (cos(πx) - sinc(x)) / x, which composed cancels near 0; 0 at 0.
            SincDerivative sinc_derivative { class: Float, exact: special::sinc_derivative, int: None, saves: Input, grad: Some(|g, x, _| { let zero = x.eq(0.0); let slope = x.sinc_derivative() * 2.0 / &zero.where_(1.0, x); g * zero.where_(-PI * PI / 3.0, (x.sinc() * (PI * PI) + slope).neg()) }),
                c: "adm_sinc_derivative(x)", wgsl: "adm_sinc_derivative(x)", onnx: None, domain: ALL, kinks: &[], ulp: 8.0 }
            /// The error function 2/sqrt(pi) times the integral of exp(-t²) from 0 to x.
            Erf erf { class: Float, exact: libm::erf, int: None, saves: Input, grad: Some(|g, x, _| g * ((x * x).neg().exp() * FRAC_2_SQRT_PI)),
                c: "erf(x)", wgsl: "adm_erf(x)", onnx: Some("Erf"), domain: (-4.0, 4.0), kinks: &[] }
            /// 1 - erf(x), accurate for large x.
            Erfc erfc { class: Float, exact: libm::erfc, int: None, saves: Input, grad: Some(|g, x, _| g * ((x * x).neg().exp() * -FRAC_2_SQRT_PI)),
                c: "erfc(x)", wgsl: "adm_erfc(x)", onnx: None, domain: (-4.0, 8.0), kinks: &[] }
            /// exp(x²) · erfc(x).
            Erfcx erfcx { class: Float, exact: special::erfcx, int: None, saves: Both, grad: Some(|g, x, y| g * (x * y * 2.0 - FRAC_2_SQRT_PI)),
                c: "adm_erfcx(x)", wgsl: "adm_erfcx(x)", onnx: None, domain: (-4.0, 10.0), kinks: &[] }
            /// The inverse of `Tensor::erf`; NaN outside [-1, 1].
            Erfinv erfinv { class: Float, exact: special::erfinv, int: None, saves: Output, grad: Some(|g, _, y| g * ((y * y).exp() * (1.0 / FRAC_2_SQRT_PI))),
                c: "adm_erfinv(x)", wgsl: "adm_erfinv(x)", onnx: None, domain: (-0.99, 0.99), kinks: &[] }
            /// The distribution function of the standard normal.
            Ndtr ndtr { class: Float, exact: special::ndtr, int: None, saves: Input, grad: Some(|g, x, _| g * normal_density(x)),
                c: "adm_ndtr(x)", wgsl: "adm_ndtr(x)", onnx: None, domain: (-6.0, 6.0), kinks: &[] }
            /// ln of `Tensor::ndtr`, which does not run out of numbers in the left tail.
            LogNdtr log_ndtr { class: Float, exact: special::log_ndtr, int: None, saves: Input, grad: Some(|g, x, _| g * ((x * -FRAC_1_SQRT_2).erfcx().reciprocal() * (FRAC_2_SQRT_PI * FRAC_1_SQRT_2))),
                c: "x < -1 ? log(0.5f * adm_erfcx(x * -0.70710678f)) - 0.5f * x * x : log1p(-adm_ndtr(-x))",
                wgsl: "select(adm_log1p(-adm_ndtr(-x)), adm_log(0.5 * adm_erfcx(x * -0.70710678)) - 0.5 * x * x, x < -1.0)", onnx: None, domain: (-10.0, 6.0), kinks: &[] }
            /// The inverse of `Tensor::ndtr`; NaN outside [0, 1].
            Ndtri ndtri { class: Float, exact: special::ndtri, int: None, saves: Output, grad: Some(|g, _, y| g * ((y * y * 0.5).exp() * TAU.sqrt())),
                c: "adm_ndtri(x)", wgsl: "adm_ndtri(x)", onnx: None, domain: (0.01, 0.99), kinks: &[] }
            /// max(x, 0). The gradient at 0 is 0; NaN stays NaN.
            Relu relu { class: Number, exact: |x| if x <= 0.0 { 0.0 } else { x }, int: Some(|x| x.max(0)), saves: Output, grad: Some(|g, _, y| y.le(0.0).where_(0.0, g)),
                c: "x <= 0 ? 0 : x", wgsl: "select(x, 0.0, x <= 0.0)", onnx: Some("Relu"), domain: ALL, kinks: &[0.0], int_text: "adm_imax_T(x, 0)" }
            /// 1 / (1 + exp(-x)).
            Sigmoid sigmoid { class: Float, exact: special::sigmoid, int: None, saves: Output, grad: Some(|g, _, y| g * (y * (1.0 - y))),
                c: "adm_sigmoid(x)", wgsl: "adm_sigmoid(x)", onnx: Some("Sigmoid"), domain: ALL, kinks: &[] }
            /// ln(sigmoid(x)), without overflow.
            LogSigmoid log_sigmoid { class: Float, exact: |x| -special::softplus(-x), int: None, saves: Input, grad: Some(|g, x, _| g * x.neg().sigmoid()),
                c: "-adm_softplus(-x)", wgsl: "-adm_softplus(-x)", onnx: None, domain: ALL, kinks: &[] }
            /// ln(1 + exp(x)), without overflow.
            Softplus softplus { class: Float, exact: special::softplus, int: None, saves: Input, grad: Some(|g, x, _| g * x.sigmoid()),
                c: "adm_softplus(x)", wgsl: "adm_softplus(x)", onnx: Some("Softplus"), domain: ALL, kinks: &[] }
            /// x · sigmoid(x), also called swish.
            Silu silu { class: Float, exact: special::silu, int: None, saves: Input, grad: Some(|g, x, _| { let s = x.sigmoid(); g * (&s * (x * (1.0 - &s) + 1.0)) }),
                c: "x * adm_sigmoid(x)", wgsl: "adm_silu(x)", onnx: Some("Swish"), domain: ALL, kinks: &[] }
            /// x · Φ(x), with Φ the normal distribution function: the exact form. NaN at both infinities, as PyTorch's.
            Gelu gelu { class: Float, exact: special::gelu, int: None, saves: Input, grad: Some(|g, x, _| g * (x * normal_density(x) + x.ndtr())),
                c: "adm_gelu(x)", wgsl: "adm_gelu(x)", onnx: Some("Gelu"), domain: (-6.0, 6.0), kinks: &[],
                // x (1 + erf) is halved last.
                narrow: |x| if x.is_infinite() { f64::NAN } else if 2.0 * x > F32_MAX { f64::INFINITY } else { x * special::ndtr(x) } }
            /// gelu with Φ approximated by tanh: x · (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2.
            GeluTanh gelu_tanh { class: Float, exact: special::gelu_tanh, int: None, saves: Input, grad: Some(|g, x, _| { let square = x * x; let s = (x * (&square * (2.0 * GELU_SCALE * GELU_CUBE) + 2.0 * GELU_SCALE)).sigmoid(); let inner = square * (6.0 * GELU_SCALE * GELU_CUBE) + 2.0 * GELU_SCALE; g * (&s * (x * (1.0 - &s) * inner + 1.0)) }),
                c: "adm_gelu_tanh(x)", wgsl: "adm_gelu_tanh(x)", onnx: None, domain: (-6.0, 6.0), kinks: &[], ulp: 64.0 }
            /// x · tanh(softplus(x)).
            Mish mish { class: Float, exact: special::mish, int: None, saves: Input, grad: Some(|g, x, _| { let t = x.softplus().tanh(); g * (&t + x * x.sigmoid() * one_minus_square(&t)) }),
                c: "adm_mish(x)", wgsl: "adm_mish(x)", onnx: Some("Mish"), domain: ALL, kinks: &[] }
            /// x - tanh(x), accurate near 0.
            Tanhshrink tanhshrink { class: Float, exact: special::tanhshrink, int: None, saves: Input, grad: Some(|g, x, _| g * x.tanh().square()),
                c: "adm_tanhshrink(x)", wgsl: "adm_tanhshrink(x)", onnx: None, domain: ALL, kinks: &[] }
            /// x / (1 + |x|).
            Softsign softsign { class: Float, exact: |x| x / (1.0 + x.abs()), int: None, saves: Input, grad: Some(|g, x, _| { let d = x.abs() + 1.0; g / (&d * &d) }),
                c: "x / (1.0f + fabs(x))", wgsl: "x / (1.0 + abs(x))", onnx: Some("Softsign"), domain: ALL, kinks: &[] }
            /// ln(x / (1 - x)), the inverse of sigmoid; NaN outside [0, 1].
            Logit logit { class: Float, exact: special::logit, int: None, saves: Input, grad: Some(|g, x, _| { let inside = x.ge(0.0).logical_and(x.le(1.0)); inside.where_(&(g / (x * (1.0 - x))), f64::NAN) }),
                c: "adm_logit(x)", wgsl: "adm_logit(x)", onnx: None, domain: (0.01, 0.99), kinks: &[] }
            /// The entropy term -x ln x: 0 at 0, -inf below.
            Entr entr { class: Float, exact: |x| if x == 0.0 { 0.0 } else if x < 0.0 { f64::NEG_INFINITY } else { -x * x.ln() }, int: None, saves: Input, grad: Some(|g, x, _| (g * (x.log() + 1.0)).neg()),
                c: "adm_entr(x)", wgsl: "adm_entr(x)", onnx: None, domain: (1e-3, 10.0), kinks: &[] }
            /// ln |Γ(x)|.
            Lgamma lgamma { class: Float, exact: special::lgamma, int: None, saves: Input, grad: Some(|g, x, _| g * x.digamma()),
                c: "lgamma(x)", wgsl: "adm_lgamma(x)", onnx: None, domain: (0.1, 10.0), kinks: &[] }
            /// The logarithmic derivative of the gamma function.
            Digamma digamma { class: Float, exact: special::digamma, int: None, saves: Input, grad: Some(|g, x, _| g * x.trigamma()),
                c: "adm_digamma(x)", wgsl: "adm_digamma(x)", onnx: None, domain: (0.1, 10.0), kinks: &[], ulp: 16.0 }
            /// The derivative of `Tensor::digamma`.
            Trigamma trigamma { class: Float, exact: special::trigamma, int: None, saves: Input, grad: Some(|g, x, _| g * x.polygamma(2)),
                c: "adm_trigamma(x)", wgsl: "adm_trigamma(x)", onnx: None, domain: (0.1, 10.0), kinks: &[] }
            /// The modified Bessel function of the first kind, order 0.
            I0 i0 { class: Float, exact: special::i0, int: None, saves: Input, grad: Some(|g, x, _| g * x.i1()),
                c: "adm_i0(x)", wgsl: "adm_i0(x)", onnx: None, domain: ALL, kinks: &[], ulp: 8.0 }
            /// exp(-|x|) · i0(x).
            I0e i0e { class: Float, exact: special::i0e, int: None, saves: Both, grad: Some(|g, x, y| g * (x.i1e() - x.sign() * y)),
                c: "adm_i0e(x)", wgsl: "adm_i0e(x)", onnx: None, domain: ALL, kinks: &[0.0], ulp: 8.0 }
            /// The modified Bessel function of the first kind, order 1.
            I1 i1 { class: Float, exact: special::i1, int: None, saves: Both, grad: Some(|g, x, y| { let zero = x.abs().le(1e-18); g * zero.where_(0.5, &(x.i0() - y / zero.where_(1.0, x))) }),
                c: "adm_i1(x)", wgsl: "adm_i1(x)", onnx: None, domain: ALL, kinks: &[], ulp: 8.0 }
            /// exp(-|x|) · i1(x).
            I1e i1e { class: Float, exact: special::i1e, int: None, saves: Both, grad: Some(|g, x, y| { let zero = x.abs().le(1e-18); g * zero.where_(0.5, &(x.i0e() - y * (x.sign() + zero.where_(1.0, x).reciprocal()))) }),
                c: "adm_i1e(x)", wgsl: "adm_i1e(x)", onnx: None, domain: ALL, kinks: &[], ulp: 8.0 }
            /// The Bessel function of the first kind, order 0.
            BesselJ0 bessel_j0 { class: Float, exact: libm::j0, int: None, saves: Input, grad: Some(|g, x, _| (g * x.bessel_j1()).neg()),
                c: "adm_j0(x)", wgsl: "adm_j0(x)", onnx: None, domain: ALL, kinks: &[] }
            /// The Bessel function of the first kind, order 1.
            BesselJ1 bessel_j1 { class: Float, exact: libm::j1, int: None, saves: Both, grad: Some(|g, x, y| { let zero = x.eq(0.0); g * zero.where_(0.5, &(x.bessel_j0() - y / zero.where_(1.0, x))) }),
                c: "adm_j1(x)", wgsl: "adm_j1(x)", onnx: None, domain: ALL, kinks: &[] }
            /// The Bessel function of the second kind, order 0; -inf at 0, NaN below.
            BesselY0 bessel_y0 { class: Float, exact: libm::y0, int: None, saves: Input, grad: Some(|g, x, _| (g * x.bessel_y1()).neg()),
                c: "adm_y0(x)", wgsl: "adm_y0(x)", onnx: None, domain: (0.1, 10.0), kinks: &[], ulp: 8.0 }
            /// The Bessel function of the second kind, order 1; -inf at 0, NaN below.
            BesselY1 bessel_y1 { class: Float, exact: libm::y1, int: None, saves: Both, grad: Some(|g, x, y| g * (x.bessel_y0() - y / x)),
                c: "adm_y1(x)", wgsl: "adm_y1(x)", onnx: None, domain: (0.1, 10.0), kinks: &[] }
            /// The modified Bessel function of the second kind, order 0; infinite at 0, NaN below.
            ModifiedBesselK0 modified_bessel_k0 { class: Float, exact: special::k0, int: None, saves: Input, grad: Some(|g, x, _| (g * x.modified_bessel_k1()).neg()),
                c: "adm_k0(x)", wgsl: "adm_k0(x)", onnx: None, domain: (0.1, 10.0), kinks: &[], ulp: 12.0 }
            /// exp(x) · modified_bessel_k0(x).
            ScaledModifiedBesselK0 scaled_modified_bessel_k0 { class: Float, exact: special::k0e, int: None, saves: Both, grad: Some(|g, x, y| g * (y - x.scaled_modified_bessel_k1())),
                c: "adm_k0e(x)", wgsl: "adm_k0e(x)", onnx: None, domain: (0.1, 10.0), kinks: &[], ulp: 8.0 }
            /// The modified Bessel function of the second kind, order 1; infinite at 0, NaN below.
            ModifiedBesselK1 modified_bessel_k1 { class: Float, exact: special::k1, int: None, saves: Both, grad: Some(|g, x, y| (g * (x.modified_bessel_k0() + y / x)).neg()),
                c: "adm_k1(x)", wgsl: "adm_k1(x)", onnx: None, domain: (0.1, 10.0), kinks: &[], ulp: 12.0 }
            /// exp(x) · modified_bessel_k1(x).
            ScaledModifiedBesselK1 scaled_modified_bessel_k1 { class: Float, exact: special::k1e, int: None, saves: Both, grad: Some(|g, x, y| g * (y - y / x - x.scaled_modified_bessel_k0())),
                c: "adm_k1e(x)", wgsl: "adm_k1e(x)", onnx: None, domain: (0.1, 10.0), kinks: &[], ulp: 8.0 }
            /// The spherical Bessel function of order 0, sin(x) / x: 1 at 0 and 0 at the infinities. (`Tensor::sinc` has πx for x.)
            SphericalBesselJ0 spherical_bessel_j0 { class: Float, exact: special::spherical_j0, int: None, saves: Both,
                grad: Some(|g, x, y| { let near = x.abs().lt(2.0); g * near.where_(&((x * FRAC_1_PI).sinc_derivative() * FRAC_1_PI), &((x.cos() - y) / near.where_(2.0, x))) }),
                c: "adm_spherical_j0(x)", wgsl: "adm_spherical_j0(x)", onnx: None, domain: ALL, kinks: &[] }
            /// Airy's function of the first kind, the solution of `y'' = x y` that vanishes to the right; it oscillates to the left.
            AiryAi airy_ai { class: Float, exact: special::airy_ai, int: None, saves: Input, grad: Some(|g, x, _| g * x.airy_ai_derivative()),
                c: "adm_airy_ai(x)", wgsl: "adm_airy_ai(x)", onnx: None, domain: (-6.0, 4.0), kinks: &[], ulp: 32.0 }
            /// The derivative of `Tensor::airy_ai`.
            AiryAiDerivative airy_ai_derivative { class: Float, exact: special::airy_ai_derivative, int: None, saves: Input, grad: Some(|g, x, _| g * x * x.airy_ai()),
                c: "adm_airy_ai_derivative(x)", wgsl: "adm_airy_ai_derivative(x)", onnx: None, domain: (-6.0, 4.0), kinks: &[], ulp: 32.0 }
            /// Is it NaN?
            IsNan isnan { class: ToBool, exact: |x| (x.is_nan()) as u8 as f64, int: Some(|_| 0), saves: Nothing, grad: None,
                c: "x != x", wgsl: "adm_isnan(x)", onnx: Some("IsNaN"), domain: ALL, kinks: &[], int_text: "x != x" }
            /// Is it inf or -inf?
            IsInf isinf { class: ToBool, exact: |x| (x.is_infinite()) as u8 as f64, int: Some(|_| 0), saves: Nothing, grad: None,
                c: "fabs(x) == INFINITY", wgsl: "adm_isinf(x)", onnx: Some("IsInf"), domain: ALL, kinks: &[], int_text: "x != x" }
            /// Is it neither infinite nor NaN?
            IsFinite isfinite { class: ToBool, exact: |x| (x.is_finite()) as u8 as f64, int: Some(|_| 1), saves: Nothing, grad: None,
                c: "fabs(x) < INFINITY", wgsl: "adm_isfinite(x)", onnx: None, domain: ALL, kinks: &[], int_text: "x == x" }
            /// Is it inf?
            IsPosInf isposinf { class: ToBool, exact: |x| (x == f64::INFINITY) as u8 as f64, int: Some(|_| 0), saves: Nothing, grad: None,
                c: "x == INFINITY", wgsl: "adm_isposinf(x)", onnx: None, domain: ALL, kinks: &[], int_text: "x != x" }
            /// Is it -inf?
            IsNegInf isneginf { class: ToBool, exact: |x| (x == f64::NEG_INFINITY) as u8 as f64, int: Some(|_| 0), saves: Nothing, grad: None,
                c: "x == -INFINITY", wgsl: "adm_isneginf(x)", onnx: None, domain: ALL, kinks: &[], int_text: "x != x" }
            /// Is the sign bit set? True for -0.0.
            SignBit signbit { class: ToBool, exact: |x| (x.is_sign_negative()) as u8 as f64, int: Some(|x| (x < 0) as i64), saves: Nothing, grad: None,
                c: "adm_signbit(x)", wgsl: "adm_signbit(x)", onnx: None, domain: ALL, kinks: &[], int_text: "x < 0" }
            /// Logical not: true where the value is zero.
            LogicalNot logical_not { class: ToBool, exact: |x| (x == 0.0) as u8 as f64, int: Some(|x| (x == 0) as i64), saves: Nothing, grad: None,
                c: "x == 0", wgsl: "x == 0.0", onnx: Some("Not"), domain: ALL, kinks: &[], int_text: "x == 0" }
            /// All bits flipped; on bool: logical not.
            BitNot bitwise_not { class: Integer, exact: |x| !(x as i64) as f64, int: Some(|x| !x), saves: Nothing, grad: None,
                c: "~x", wgsl: "~x", onnx: Some("BitwiseNot"), domain: ALL, kinks: &[], int_text: "~x" }
        }
    };
}
/// Hands the rows of the functions of two numbers to the macro that is named.
#[doc(hidden)]
#[macro_export]
macro_rules! binary_rows {
    ($then:ident) => {
        $then! {
            /// x + y; on bool: or.
            Add add { class: Any, exact: |x, y| x + y, int: Some(|x, y| Some(x.wrapping_add(y))), saves: Nothing,
                grad: Some((|g, _, _, _| g.clone(), |g, _, _, _| g.clone())),
                c: "x + y", wgsl: "x + y", onnx: Some("Add"), domain: BOTH }
            /// x - y.
            Sub sub { class: Number, exact: |x, y| x - y, int: Some(|x, y| Some(x.wrapping_sub(y))), saves: Nothing,
                grad: Some((|g, _, _, _| g.clone(), |g, _, _, _| g.neg())),
                c: "x - y", wgsl: "x - y", onnx: Some("Sub"), domain: BOTH }
            /// x · y; on bool: and.
            Mul mul { class: Any, exact: |x, y| x * y, int: Some(|x, y| Some(x.wrapping_mul(y))), saves: Input,
                grad: Some((|g, _, y, _| g * y, |g, x, _, _| g * x)),
                c: "x * y", wgsl: "x * y", onnx: Some("Mul"), domain: BOTH }
            /// x / y, true division: integers are divided as f32.
            Div div { class: Float, exact: |x, y| x / y, int: None, saves: Input,
                grad: Some((|g, _, y, _| g / y, |g, x, y, _| (g * (x / y) / y).neg())),
                c: "x / y", wgsl: "x / y", onnx: Some("Div"), domain: (ALL, (0.5, 4.0)) }
            /// x to the power y. Integers wrap; a negative power of an integer truncates.
            /// Gradients as PyTorch's: 0 for a zero exponent, and 0 for the exponent of a zero base unless it is negative.
            Pow pow { class: Number, exact: f64::powf, int: Some(|x, y| Some(special::int_pow(x, y))), saves: Input,
                grad: Some((|g, x, y, _| { let zero = y.eq(0.0); let less = zero.where_(1.0, y) - 1.0; zero.where_(0.0, &(g * (y * x.pow(less)))) }, |g, x, y, _| { let none = x.eq(0.0).logical_and(y.ge(0.0)); none.where_(0.0, &(g * (x.pow(y) * none.where_(1.0, x).log()))) })),
                c: "pow(x, y)", wgsl: "adm_pow(x, y)", onnx: Some("Pow"), domain: ((0.1, 4.0), (-3.0, 3.0)), int_text: "adm_ipow_T(x, y)" }
            /// The larger; NaN if either is NaN. Equal values share the gradient.
            Maximum maximum { class: Any, exact: |x, y| if x.is_nan() || y.is_nan() { f64::NAN } else { x.max(y) }, int: Some(|x, y| Some(x.max(y))), saves: Input,
                grad: Some((|g, x, y, _| unless_beaten(g, x, y, &x.lt(y)), |g, x, y, _| unless_beaten(g, x, y, &x.gt(y)))),
                c: "adm_max(x, y)", wgsl: "adm_max(x, y)", onnx: Some("Max"), domain: BOTH, int_text: "adm_imax_T(x, y)" }
            /// The smaller; NaN if either is NaN. Equal values share the gradient.
            Minimum minimum { class: Any, exact: |x, y| if x.is_nan() || y.is_nan() { f64::NAN } else { x.min(y) }, int: Some(|x, y| Some(x.min(y))), saves: Input,
                grad: Some((|g, x, y, _| unless_beaten(g, x, y, &x.gt(y)), |g, x, y, _| unless_beaten(g, x, y, &x.lt(y)))),
                c: "adm_min(x, y)", wgsl: "adm_min(x, y)", onnx: Some("Min"), domain: BOTH, int_text: "adm_imin_T(x, y)" }
            /// The larger, ignoring a NaN beside a number. Equal values share the gradient; of two NaN the left side takes it.
            Fmax fmax { class: Any, exact: f64::max, int: Some(|x, y| Some(x.max(y))), saves: Input,
                grad: Some((|g, x, y, _| x.eq(y).where_(&(g * 0.5), x.gt(y).logical_or(y.isnan()).where_(g, 0.0)), |g, x, y, _| x.eq(y).where_(&(g * 0.5), x.gt(y).logical_or(y.isnan()).where_(0.0, g)))),
                c: "adm_fmax(x, y)", wgsl: "adm_fmax(x, y)", onnx: None, domain: BOTH, int_text: "adm_imax_T(x, y)" }
            /// The smaller, ignoring a NaN beside a number. Equal values share the gradient; of two NaN the left side takes it.
            Fmin fmin { class: Any, exact: f64::min, int: Some(|x, y| Some(x.min(y))), saves: Input,
                grad: Some((|g, x, y, _| x.eq(y).where_(&(g * 0.5), x.lt(y).logical_or(y.isnan()).where_(g, 0.0)), |g, x, y, _| x.eq(y).where_(&(g * 0.5), x.lt(y).logical_or(y.isnan()).where_(0.0, g)))),
                c: "adm_fmin(x, y)", wgsl: "adm_fmin(x, y)", onnx: None, domain: BOTH, int_text: "adm_imin_T(x, y)" }
            /// The angle of the point (y, x) = (other, self): the inverse tangent of self / other in its quadrant.
            Atan2 atan2 { class: Float, exact: f64::atan2, int: None, saves: Input,
                grad: Some((|g, x, y, _| { let h = x.hypot(y); let h = h.eq(0.0).where_(1.0, &h); g * (y / &h) / &h }, |g, x, y, _| { let h = x.hypot(y); let h = h.eq(0.0).where_(1.0, &h); (g * (x / &h) / &h).neg() })),
                c: "atan2(x, y)", wgsl: "adm_atan2(x, y)", onnx: None, domain: ((0.5, 10.0), ALL) }
            /// sqrt(x² + y²), without overflow.
            Hypot hypot { class: Float, exact: libm::hypot, int: None, saves: Input,
                grad: Some((|g, x, y, _| g * (x / x.hypot(y)), |g, x, y, _| g * (y / x.hypot(y)))),
                c: "hypot(x, y)", wgsl: "adm_hypot(x, y)", onnx: None, domain: (ALL, (0.5, 10.0)) }
            /// |x| with the sign of y.
            Copysign copysign { class: Float, exact: f64::copysign, int: None, saves: Input,
                grad: Some((|g, x, y, _| g * (x.sign() * x.ones_like().copysign(y)), |g, _, _, _| g.zeros_like())),
                c: "copysign(x, y)", wgsl: "adm_copysign(x, y)", onnx: None, domain: ((0.5, 10.0), (0.5, 10.0)) }
            /// ln(exp(x) + exp(y)), without overflow.
            Logaddexp logaddexp { class: Float, exact: special::logaddexp, int: None, saves: Input,
                grad: Some((|g, x, y, _| g * (x - y).sigmoid(), |g, x, y, _| g * (y - x).sigmoid())),
                c: "adm_logaddexp(x, y)", wgsl: "adm_logaddexp(x, y)", onnx: None, domain: BOTH }
            /// log2(2^x + 2^y), without overflow.
            Logaddexp2 logaddexp2 { class: Float, exact: special::logaddexp2, int: None, saves: Input,
                grad: Some((|g, x, y, _| g * ((x - y) * LN_2).sigmoid(), |g, x, y, _| g * ((y - x) * LN_2).sigmoid())),
                c: "adm_logaddexp2(x, y)", wgsl: "adm_logaddexp2(x, y)", onnx: None, domain: BOTH }
            /// x · ln(y); 0 where x is 0, unless y is NaN.
            Xlogy xlogy { class: Float, exact: |x, y| if y.is_nan() { y } else if x == 0.0 { 0.0 } else { x * y.ln() }, int: None, saves: Input,
                grad: Some((|g, x, y, _| { let none = x.eq(0.0).logical_and(y.le(0.0)); g * none.where_(0.0, none.where_(1.0, y).log()) }, |g, x, y, _| g * x / y)),
                c: "adm_xlogy(x, y)", wgsl: "adm_xlogy(x, y)", onnx: None, domain: (ALL, (0.1, 10.0)) }
            /// x · ln(1 + y); 0 where x is 0, unless y is NaN.
            Xlog1py xlog1py { class: Float, exact: |x, y| if y.is_nan() { y } else if x == 0.0 { 0.0 } else { x * y.ln_1p() }, int: None, saves: Input,
                grad: Some((|g, x, y, _| { let none = x.eq(0.0).logical_and(y.le(-1.0)); g * none.where_(0.0, none.where_(0.0, y).log1p()) }, |g, x, y, _| g * x / (y + 1.0))),
                c: "adm_xlog1py(x, y)", wgsl: "adm_xlog1py(x, y)", onnx: None, domain: (ALL, (-0.9, 10.0)) }
            /// floor(x / y).
            FloorDivide floor_divide { class: Number, exact: special::floor_divide, int: Some(special::int_floor_divide), saves: Nothing,
                grad: Some((|g, _, _, _| g.zeros_like(), |g, _, _, _| g.zeros_like())),
                c: "adm_floor_divide(x, y)", wgsl: "adm_floor_divide(x, y)", onnx: None, domain: (ALL, (0.5, 4.0)), int_text: "adm_ifloor_divide_T(x, y)" }
            /// trunc(x / y): toward zero. On integers the quotient of Rust's and C's `/`.
            DivTrunc div_trunc { class: Number, exact: |x, y| (x / y).trunc(), int: Some(|x, y| if y == 0 { None } else { Some(x.wrapping_div(y)) }), saves: Nothing,
                grad: Some((|g, _, _, _| g.zeros_like(), |g, _, _, _| g.zeros_like())),
                c: "trunc(x / y)", wgsl: "trunc(x / y)", onnx: None, domain: (ALL, (0.5, 4.0)), int_text: "adm_idiv_T(x, y)" }
            /// x - y · floor(x / y): the sign of y, as Python's `%`.
            Remainder remainder { class: Number, exact: special::remainder, int: Some(special::int_remainder), saves: Input,
                grad: Some((|g, _, _, _| g.clone(), |g, x, y, _| (g * x.floor_divide(y)).neg())),
                c: "adm_remainder(x, y)", wgsl: "adm_remainder(x, y)", onnx: None, domain: (ALL, (0.5, 4.0)), int_text: "adm_iremainder_T(x, y)" }
            /// x - y · trunc(x / y): the sign of x, as C's `fmod`.
            Fmod fmod { class: Number, exact: |x, y| x % y, int: Some(|x, y| if y == 0 { None } else { Some(x.wrapping_rem(y)) }), saves: Input,
                grad: Some((|g, _, _, _| g.clone(), |g, x, y, _| (g * x.div_trunc(y)).neg())),
                c: "fmod(x, y)", wgsl: "adm_fmod(x, y)", onnx: Some("Mod"), domain: (ALL, (0.5, 4.0)), int_text: "adm_ifmod_T(x, y)" }
            /// x · 2^y.
            Ldexp ldexp { class: Float, exact: special::ldexp, int: None, saves: Input,
                grad: Some((|g, _, y, _| g.ldexp(y), |g, x, y, _| g * x.ldexp(y) * LN_2)),
                c: "adm_ldexp(x, y)", wgsl: "adm_ldexp(x, y)", onnx: None, domain: BOTH }
            /// 0 below 0, 1 above, y at 0; 0 for NaN. No gradient.
            Heaviside heaviside { class: Any, exact: |x, y| if x == 0.0 { y } else { (x > 0.0) as u8 as f64 }, int: Some(|x, y| Some(if x == 0 { y } else { (x > 0) as i64 })), saves: Nothing,
                grad: None,
                c: "x == 0 ? y : (x > 0 ? 1 : 0)", wgsl: "select(select(0.0, 1.0, x > 0.0), y, x == 0.0)", onnx: None, domain: BOTH, int_text: "adm_iheaviside_T(x, y)" }
            /// The regularized lower incomplete gamma function P(x, y). No gradient to x is known.
            Igamma igamma { class: Float, exact: special::igamma, int: None, saves: Input,
                grad: Some((|_, _, _, _| no_gradient("igamma"), |g, x, y, _| g * gamma_density(x, y))),
                c: "adm_igamma(x, y)", wgsl: "adm_igamma(x, y)", onnx: None, domain: ((0.2, 10.0), (0.1, 10.0)), ulp: 32.0 }
            /// The regularized upper incomplete gamma function Q(x, y) = 1 - P(x, y). No gradient to x is known.
            Igammac igammac { class: Float, exact: special::igammac, int: None, saves: Input,
                grad: Some((|_, _, _, _| no_gradient("igammac"), |g, x, y, _| (g * gamma_density(x, y)).neg())),
                c: "adm_igammac(x, y)", wgsl: "adm_igammac(x, y)", onnx: None, domain: ((0.2, 10.0), (0.1, 10.0)), ulp: 32.0 }
            /// Hurwitz' zeta function: the sum of (k + y)^-x over k ≥ 0. No gradient to x is known.
            Zeta zeta { class: Float, exact: special::zeta, int: None, saves: Input,
                grad: Some((|_, _, _, _| no_gradient("zeta"), |g, x, y, _| (g * x * (x + 1.0).zeta(y)).neg())),
                c: "adm_zeta(x, y)", wgsl: "adm_zeta(x, y)", onnx: None, domain: ((1.2, 10.0), (0.5, 10.0)), ulp: 16.0 }
            /// The y-th derivative of digamma at x, y a whole number ≥ 0, to which no gradient flows.
            Polygamma polygamma { class: Float, exact: special::polygamma, int: None, saves: Input,
                grad: Some((|g, x, y, _| g * x.polygamma(y + 1.0), |g, _, _, _| g.zeros_like())),
                c: "adm_polygamma(x, y)", wgsl: "adm_polygamma(x, y)", onnx: None, domain: ((0.5, 10.0), (2.0, 2.0)) }
            /// Is x equal to y?
            Eq eq { class: ToBool, exact: |x, y| (x == y) as u8 as f64, int: Some(|x, y| Some((x == y) as i64)), saves: Nothing,
                grad: None,
                c: "x == y", wgsl: "x == y", onnx: Some("Equal"), domain: BOTH }
            /// Is x not equal to y? True for NaN.
            Ne ne { class: ToBool, exact: |x, y| (x != y) as u8 as f64, int: Some(|x, y| Some((x != y) as i64)), saves: Nothing,
                grad: None,
                c: "x != y", wgsl: "!(x == y)", onnx: None, domain: BOTH }
            /// Is x less than y?
            Lt lt { class: ToBool, exact: |x, y| (x < y) as u8 as f64, int: Some(|x, y| Some((x < y) as i64)), saves: Nothing,
                grad: None,
                c: "x < y", wgsl: "x < y", onnx: Some("Less"), domain: BOTH }
            /// Is x less than or equal to y?
            Le le { class: ToBool, exact: |x, y| (x <= y) as u8 as f64, int: Some(|x, y| Some((x <= y) as i64)), saves: Nothing,
                grad: None,
                c: "x <= y", wgsl: "x <= y", onnx: Some("LessOrEqual"), domain: BOTH }
            /// Is x greater than y?
            Gt gt { class: ToBool, exact: |x, y| (x > y) as u8 as f64, int: Some(|x, y| Some((x > y) as i64)), saves: Nothing,
                grad: None,
                c: "x > y", wgsl: "x > y", onnx: Some("Greater"), domain: BOTH }
            /// Is x greater than or equal to y?
            Ge ge { class: ToBool, exact: |x, y| (x >= y) as u8 as f64, int: Some(|x, y| Some((x >= y) as i64)), saves: Nothing,
                grad: None,
                c: "x >= y", wgsl: "x >= y", onnx: Some("GreaterOrEqual"), domain: BOTH }
            /// Are both sides not zero?
            LogicalAnd logical_and { class: ToBool, exact: |x, y| (x != 0.0 && y != 0.0) as u8 as f64, int: Some(|x, y| Some((x != 0 && y != 0) as i64)), saves: Nothing,
                grad: None,
                c: "x != 0 && y != 0", wgsl: "!(x == 0.0) && !(y == 0.0)", onnx: Some("And"), domain: BOTH, int_text: "(x != 0) && (y != 0)" }
            /// Is either side not zero?
            LogicalOr logical_or { class: ToBool, exact: |x, y| (x != 0.0 || y != 0.0) as u8 as f64, int: Some(|x, y| Some((x != 0 || y != 0) as i64)), saves: Nothing,
                grad: None,
                c: "x != 0 || y != 0", wgsl: "!(x == 0.0) || !(y == 0.0)", onnx: Some("Or"), domain: BOTH, int_text: "(x != 0) || (y != 0)" }
            /// Is exactly one side not zero?
            LogicalXor logical_xor { class: ToBool, exact: |x, y| ((x != 0.0) != (y != 0.0)) as u8 as f64, int: Some(|x, y| Some(((x != 0) != (y != 0)) as i64)), saves: Nothing,
                grad: None,
                c: "(x != 0) != (y != 0)", wgsl: "(x == 0.0) != (y == 0.0)", onnx: Some("Xor"), domain: BOTH, int_text: "(x != 0) != (y != 0)" }
            /// The bits set on both sides; on bool: and.
            BitAnd bitwise_and { class: Bits, exact: |x, y| ((x as i64) & (y as i64)) as f64, int: Some(|x, y| Some(x & y)), saves: Nothing,
                grad: None,
                c: "x & y", wgsl: "x & y", onnx: Some("BitwiseAnd"), domain: BOTH }
            /// The bits set on either side; on bool: or.
            BitOr bitwise_or { class: Bits, exact: |x, y| ((x as i64) | (y as i64)) as f64, int: Some(|x, y| Some(x | y)), saves: Nothing,
                grad: None,
                c: "x | y", wgsl: "x | y", onnx: Some("BitwiseOr"), domain: BOTH }
            /// The bits set on exactly one side; on bool: not equal.
            BitXor bitwise_xor { class: Bits, exact: |x, y| ((x as i64) ^ (y as i64)) as f64, int: Some(|x, y| Some(x ^ y)), saves: Nothing,
                grad: None,
                c: "x ^ y", wgsl: "x ^ y", onnx: Some("BitwiseXor"), domain: BOTH }
            /// x shifted left by y bits. Of y outside the width: 0.
            ShiftLeft bitwise_left_shift { class: Integer, exact: |x, y| special::shift_left(x as i64, y as i64) as f64, int: Some(|x, y| Some(special::shift_left(x, y))), saves: Nothing,
                grad: None,
                c: "adm_ishl_T(x, y)", wgsl: "adm_ishl_T(x, y)", onnx: Some("BitShift"), domain: ((0.0, 100.0), (0.0, 7.0)), int_text: "adm_ishl_T(x, y)" }
            /// x shifted right by y bits, with the sign. Of y outside the width: all bits gone.
            ShiftRight bitwise_right_shift { class: Integer, exact: |x, y| special::shift_right(x as i64, y as i64) as f64, int: Some(|x, y| Some(special::shift_right(x, y))), saves: Nothing,
                grad: None,
                c: "adm_ishr_T(x, y)", wgsl: "adm_ishr_T(x, y)", onnx: Some("BitShift"), domain: ((0.0, 100.0), (0.0, 7.0)), int_text: "adm_ishr_T(x, y)" }
            /// The greatest common divisor, not negative.
            Gcd gcd { class: Integer, exact: |x, y| special::gcd(x as i64, y as i64) as f64, int: Some(|x, y| Some(special::gcd(x, y))), saves: Nothing,
                grad: None,
                c: "adm_igcd_T(x, y)", wgsl: "adm_igcd_T(x, y)", onnx: None, domain: BOTH, int_text: "adm_igcd_T(x, y)" }
            /// The least common multiple, not negative.
            Lcm lcm { class: Integer, exact: |x, y| special::lcm(x as i64, y as i64) as f64, int: Some(|x, y| Some(special::lcm(x, y))), saves: Nothing,
                grad: None,
                c: "adm_ilcm_T(x, y)", wgsl: "adm_ilcm_T(x, y)", onnx: None, domain: BOTH, int_text: "adm_ilcm_T(x, y)" }
        }
    };
}
