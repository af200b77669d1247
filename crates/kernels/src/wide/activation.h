/* Activations, and logarithms of sums and quotients, as adamant_ir's special.rs and special/gelu.rs. */

static inline double adm_sigmoid_f64(double x) {
    if (x >= 0.0) return 1.0 / (1.0 + exp(-x));
    const double e = exp(x);
    return e / (1.0 + e);
}
/* Far below zero the power keeps digits that it would not have by itself until x has multiplied it. */
static inline double adm_silu_f64(double x) {
    return x < -600.0 ? x * exp(x + 100.0) * exp(-100.0) : x * adm_sigmoid_f64(x);
}
static inline double adm_softplus_f64(double x) {
    return x != x ? x : fmax(x, 0.0) + log1p(exp(-fabs(x)));
}
/* x tanh(softplus(x)) = x n / (n + 2) with n = e^x (e^x + 2), which does not cancel anywhere. */
static inline double adm_mish_f64(double x) {
    if (x > 40.0) return x;
    if (x < -600.0) return adm_silu_f64(x);
    const double e = exp(x);
    const double n = e * (e + 2.0);
    /* Below zero as x e^x less a share of it, which has fewer roundings. */
    return x < 0.0 ? x * e * (1.0 - e * (e + 1.0) / (n + 2.0)) : x * (n / (n + 2.0));
}
/* Near zero as (x cosh x - sinh x) / cosh x, whose numerator is the sum of x^(2k+1) 2k / (2k+1)!, all of one sign; of its first
   term what is rounded is kept. */
static inline double adm_tanhshrink_f64(double x) {
    if (fabs(x) >= 1.0 || x != x) return x - tanh(x);
    const adm_dekker_f64 line = adm_dekker_from_f64(x);
    const adm_dekker_f64 first = adm_dekker_over_f64(adm_dekker_times_f64(adm_dekker_times_f64(line, line), line), adm_dekker_from_f64(3.0));
    double power = 0.5 * first.high, sum = first.low;
    for (int k = 2; k < 13; k++) {
        const double n = 2.0 * (double)k;
        power *= x * x / (n * (n + 1.0));
        sum += n * power;
    }
    return (first.high + sum) / cosh(x);
}
/* Near one half as ln(1 + (2x - 1) / (1 - x)), where 2x - 1 is exact. */
static inline double adm_logit_f64(double x) {
    return x >= 0.3 && x < 0.7 ? log1p((2.0 * x - 1.0) / (1.0 - x)) : log(x) - log1p(-x);
}
static inline double adm_entr_f64(double x) {
    return x == 0.0 ? 0.0 : x < 0.0 ? -INFINITY : -x * log(x);
}
static inline double adm_xlogy_f64(double x, double y) {
    return y != y ? y : x == 0.0 ? 0.0 : x * log(y);
}
static inline double adm_xlog1py_f64(double x, double y) {
    return y != y ? y : x == 0.0 ? 0.0 : x * log1p(y);
}
/* ln(1 + e^x) for x up to 0. Far below zero by its series: of the power little would be left beside the 1. */
static inline adm_dekker_f64 adm_log_one_and_power_f64(adm_dekker_f64 x) {
    if (x.high < -745.0) return adm_dekker_from_f64(0.0);
    int n = 0;
    const adm_dekker_f64 p = adm_dekker_exp_f64(x, &n);
    const adm_dekker_f64 power = adm_dekker_scaled_f64(p, n);
    if (x.high >= -14.0) return adm_dekker_ln_f64(adm_dekker_plus_f64(adm_dekker_from_f64(1.0), power));
    return adm_dekker_minus_f64(power, adm_dekker_times_f64(adm_dekker_times_f64(power, power), adm_dekker_from_f64(0.5 - power.high / 3.0)));
}
/* Is the larger one about minus what the other adds, or is much of the rest rounded off it? */
static inline bool adm_logaddexp_cancels_f64(double top, double less, double more) {
    return fabs(top + more) < 0.6 * (fabs(top) + more) || (less - top < -2.0 && more > 0.25 * fabs(top));
}
static inline double adm_logaddexp_f64(double x, double y) {
    if (x == y && fabs(x) == INFINITY) return x;
    if (x != x || y != y) return (double)adm_nan();
    const double top = fmax(x, y), less = fmin(x, y);
    const adm_dekker_f64 apart = adm_dekker_sum_f64(less, -top);
    const double power = exp(apart.high);
    /* What the difference is rounded by is worth as much of the power. */
    const double more = log1p(power) + (fabs(apart.low) < INFINITY ? power / (1.0 + power) * apart.low : 0.0);
    if (!adm_logaddexp_cancels_f64(top, less, more)) return top + more;
    const adm_dekker_f64 sum = adm_dekker_plus_f64(adm_log_one_and_power_f64(apart), adm_dekker_from_f64(top));
    return sum.high + sum.low;
}
static inline double adm_logaddexp2_f64(double x, double y) {
    if (x == y && fabs(x) == INFINITY) return x;
    if (x != x || y != y) return (double)adm_nan();
    const double top = fmax(x, y), less = fmin(x, y);
    const adm_dekker_f64 apart = adm_dekker_sum_f64(less, -top), ln_2 = adm_dekker_ln_2_f64();
    const double power = exp2(apart.high);
    const double more = log1p(power) / 0.6931471805599453 + (fabs(apart.low) < INFINITY ? power / (1.0 + power) * apart.low : 0.0);
    if (!adm_logaddexp_cancels_f64(top, less, more)) return top + more;
    const adm_dekker_f64 added = adm_dekker_over_f64(adm_log_one_and_power_f64(adm_dekker_times_f64(apart, ln_2)), ln_2);
    const adm_dekker_f64 sum = adm_dekker_plus_f64(added, adm_dekker_from_f64(top));
    return sum.high + sum.low;
}
/* x times the normal distribution function P, rounded once but for some 2^-90; NaN at both infinities, as PyTorch's. P is one
   half and the density times the sum of x^(2k+1) / (2k+1)!! (NIST Handbook of Mathematical Functions, 7.6.2), to the left of -4
   the density over Laplace's fraction |x| + 1/(|x| + 2/(|x| + ..)). */
static inline double adm_gelu_f64(double x) {
    if (x == 0.0) return x;
    if (!(fabs(x) < INFINITY)) return (double)adm_nan();
    /* Nothing of P is left, or nothing of 1 - P. */
    if (x < -40.0) return -0.0;
    if (x >= 9.0) return x;
    const adm_dekker_f64 line = adm_dekker_from_f64(x), square = adm_dekker_times_f64(line, line);
    const adm_dekker_f64 minus_half = {-0.5 * square.high, -0.5 * square.low}, one_over_sqrt_tau = {0.3989422804014327, -2.49232720227773e-17};
    int n = 0;
    const adm_dekker_f64 density = adm_dekker_times_f64(adm_dekker_exp_f64(minus_half, &n), one_over_sqrt_tau);
    if (x < -4.0) {
        /* The rest of the fraction after so many levels: below 2^-90 at -4, and less beyond. */
        adm_dekker_f64 fraction = adm_dekker_from_f64(-x);
        for (int k = 60; k >= 1; k--) fraction = adm_dekker_plus_f64(adm_dekker_from_f64(-x), adm_dekker_over_f64(adm_dekker_from_f64((double)k), fraction));
        const adm_dekker_f64 product = adm_dekker_over_f64(adm_dekker_times_f64(line, density), fraction);
        return scalbn(product.high + product.low, n);
    }
    adm_dekker_f64 term = line, sum = line;
    double odd = 1.0;
    for (int k = 0; k < 400 && fabs(term.high) > 1e-30 * fabs(sum.high); k++) {
        odd += 2.0;
        term = adm_dekker_over_f64(adm_dekker_times_f64(term, square), adm_dekker_from_f64(odd));
        sum = adm_dekker_plus_f64(sum, term);
    }
    const adm_dekker_f64 above_half = adm_dekker_times_f64(adm_dekker_scaled_f64(density, n), sum);
    const adm_dekker_f64 product = adm_dekker_times_f64(line, adm_dekker_plus_f64(above_half, adm_dekker_from_f64(0.5)));
    return product.high + product.low;
}
/* x s(u), s the logistic and u = 2 sqrt(2/pi) (x + 0.044715 x^3) (Hendrycks and Gimpel, 2016). For negative x an error of u is one
   of the result as many times larger as |u|, so u is a pair. */
static inline double adm_gelu_tanh_f64(double x) {
    if (x == -INFINITY) return (double)adm_nan();
    /* Beyond 30 the logistic is 0 or 1. */
    if (!(fabs(x) <= 30.0)) return x < 0.0 ? -0.0 : x;
    const adm_dekker_f64 line = adm_dekker_from_f64(x), square = adm_dekker_times_f64(line, line);
    const adm_dekker_f64 scale = {1.5957691216057308, -9.96930880911092e-17}, cube = {0.044715, 2.1960211427085595e-18};
    const adm_dekker_f64 u = adm_dekker_times_f64(adm_dekker_plus_f64(adm_dekker_from_f64(1.0), adm_dekker_times_f64(cube, square)), adm_dekker_times_f64(scale, line));
    if (u.high < -700.0) {
        /* e^u has few bits or none where the product still has some. */
        const double root = exp(u.high / 2.0);
        return x * root * (1.0 + u.low) * root;
    }
    const double rest = u.high < 0.0 ? u.low : -u.low;
    const double first = exp(-fabs(u.high));
    const double e = first + first * rest;
    if (x < -1.0) {
        /* What the product and the quotient change is added last, so that little is lost by it. */
        const adm_dekker_f64 product = adm_dekker_times_f64(line, adm_dekker_from_f64(first));
        return product.high + (product.low + product.high * (rest - e / (1.0 + e)));
    }
    return x < 0.0 ? x * e / (1.0 + e) : x / (1.0 + e);
}
