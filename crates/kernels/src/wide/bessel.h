/* Bessel functions: the modified ones as adamant_ir's special/bessel.rs, and the ordinary ones of orders 0 and 1 by the same two
   means, power series in pairs up to 20 (DLMF 10.2.2, 10.8.1, 10.8.2) and the asymptotic expansions above (10.17.3, 10.17.4). */

/* The sum of (sign x^2/4)^k / (k! (k+order)!). Far out its terms are millions of times the sum where they have two signs. */
static inline adm_dekker_f64 adm_bessel_series_f64(int order, double x, double sign) {
    const adm_dekker_f64 half = adm_dekker_from_f64(0.5 * x), square = adm_dekker_times_f64(half, half);
    const adm_dekker_f64 q = {sign * square.high, sign * square.low};
    adm_dekker_f64 term = adm_dekker_from_f64(1.0), sum = term;
    for (int k = 1; k < 200; k++) {
        term = adm_dekker_over_f64(adm_dekker_times_f64(term, q), adm_dekker_from_f64((double)(k * (k + order))));
        sum = adm_dekker_plus_f64(sum, term);
        if (fabs(term.high) < fabs(sum.high) * 1e-18) break;
    }
    return sum;
}
/* The scaled function of large x (DLMF 10.40.1), whose error is below exp(-40) there. */
static inline double adm_bessel_i_far_f64(int order, double x) {
    const double mu = order == 0 ? 0.0 : 4.0;
    double term = 1.0;
    adm_dekker_f64 sum = adm_dekker_from_f64(1.0);
    for (int k = 1; k < 40; k++) {
        const double odd = 2.0 * (double)k - 1.0;
        const double next = -term * (mu - odd * odd) / (8.0 * (double)k * x);
        if (fabs(next) > fabs(term) || fabs(next) < 1e-18) break;
        term = next;
        sum = adm_dekker_plus_f64(sum, adm_dekker_from_f64(term));
    }
    if (x > 1e300) return sum.high / (2.5066282746310002 * sqrt(x));
    const adm_dekker_f64 value = adm_dekker_over_f64(sum, adm_dekker_sqrt_f64(adm_dekker_times_f64(adm_dekker_tau_f64(), adm_dekker_from_f64(x))));
    return value.high + value.low;
}
static inline double adm_bessel_i_near_f64(int order, double x) {
    const adm_dekker_f64 sum = adm_bessel_series_f64(order, x, 1.0);
    return sum.high + sum.low;
}
/* exp(a) b, where exp(a) alone may overflow. */
static inline double adm_exp_times_f64(double a, double b) {
    if (a < 700.0) return exp(a) * b;
    const double half = exp(0.5 * a);
    return half * b * half;
}
static inline double adm_i0_f64(double x) {
    const double a = fabs(x);
    if (a == INFINITY) return a;
    return a > 20.0 ? adm_exp_times_f64(a, adm_bessel_i_far_f64(0, a)) : adm_bessel_i_near_f64(0, a);
}
static inline double adm_i0e_f64(double x) {
    const double a = fabs(x);
    return a > 20.0 ? adm_bessel_i_far_f64(0, a) : exp(-a) * adm_bessel_i_near_f64(0, a);
}
static inline double adm_i1_f64(double x) {
    const double a = fabs(x);
    if (a == INFINITY) return x;
    return a > 20.0 ? copysign(adm_exp_times_f64(a, adm_bessel_i_far_f64(1, a)), x) : 0.5 * x * adm_bessel_i_near_f64(1, a);
}
static inline double adm_i1e_f64(double x) {
    const double a = fabs(x);
    return a > 20.0 ? copysign(adm_bessel_i_far_f64(1, a), x) : 0.5 * x * exp(-a) * adm_bessel_i_near_f64(1, a);
}
/* exp(x) K(x) of any real order for x of at least about 0.2: the trapezoidal rule on the integral of exp(-x (cosh t - 1))
   cosh(order t) over t from 0 (DLMF 10.32.9; Trefethen and Weideman, "The exponentially convergent trapezoidal rule", 2014). The
   step is so small that what the rule leaves out is below exp(-38). */
static inline double adm_bessel_k_scaled_f64(double order, double x) {
    const double step = fmin(0.2, 0.6 / sqrt(x));
    double sum = 0.5;
    for (int k = 1; k < 100; k++) {
        const double t = step * (double)k;
        const double s = sinh(0.5 * t);
        const double term = exp(-(2.0 * x * (s * s))) * cosh(order * t);
        sum += term;
        if (term < sum * 1e-18) break;
    }
    return sum * step;
}
/* K of order 0 for x up to 1: the sum of q^k / k!^2 (psi(k + 1) - ln(x/2)), q = x^2/4 (DLMF 10.31.2). */
static inline double adm_k0_near_f64(double x) {
    const double q = 0.25 * x * x, log_half = log(x) - 0.6931471805599453;
    double term = 1.0, psi = -0.5772156649015329, sum = -0.5772156649015329 - log_half;
    for (int k = 1; k < 20; k++) {
        const double n = (double)k;
        term *= q / (n * n);
        psi += 1.0 / n;
        sum += term * (psi - log_half);
    }
    return sum;
}
/* K of order 1 for x up to 1: 1/x + x/2 times the sum of q^k / (k! (k+1)!) (ln(x/2) - (psi(k + 1) + psi(k + 2)) / 2) (DLMF 10.31.1). */
static inline double adm_k1_near_f64(double x) {
    const double q = 0.25 * x * x, log_half = log(x) - 0.6931471805599453;
    double term = 1.0, psi = 0.5 - 0.5772156649015329;
    double sum = log_half - psi;
    for (int k = 1; k < 20; k++) {
        const double n = (double)k;
        term *= q / (n * (n + 1.0));
        psi += 0.5 / n + 0.5 / (n + 1.0);
        sum += term * (log_half - psi);
    }
    return 1.0 / x + 0.5 * x * sum;
}
/* What there is nothing to compute of: NaN below 0, infinite at 0, 0 at infinity; else -1. */
static inline double adm_bessel_k_edge_f64(double x) {
    if (!(x >= 0.0)) return (double)adm_nan();
    return x == 0.0 ? INFINITY : x == INFINITY ? 0.0 : -1.0;
}
static inline double adm_k0_f64(double x) {
    const double edge = adm_bessel_k_edge_f64(x);
    if (!(edge == -1.0)) return edge;
    return x > 1.0 ? exp(-x) * adm_bessel_k_scaled_f64(0.0, x) : adm_k0_near_f64(x);
}
static inline double adm_k0e_f64(double x) {
    const double edge = adm_bessel_k_edge_f64(x);
    if (!(edge == -1.0)) return edge;
    return x > 1.0 ? adm_bessel_k_scaled_f64(0.0, x) : exp(x) * adm_k0_near_f64(x);
}
static inline double adm_k1_f64(double x) {
    const double edge = adm_bessel_k_edge_f64(x);
    if (!(edge == -1.0)) return edge;
    return x > 1.0 ? exp(-x) * adm_bessel_k_scaled_f64(1.0, x) : adm_k1_near_f64(x);
}
static inline double adm_k1e_f64(double x) {
    const double edge = adm_bessel_k_edge_f64(x);
    if (!(edge == -1.0)) return edge;
    return x > 1.0 ? adm_bessel_k_scaled_f64(1.0, x) : exp(x) * adm_k1_near_f64(x);
}

/* J (`second` 0) or Y (1) of large x, whose phase is x less pi/4 and order pi/2. */
static inline double adm_bessel_far_f64(int order, int second, double x) {
    const double mu = order == 0 ? 0.0 : 4.0;
    double term = 1.0, even = 1.0, odd = 0.0;
    for (int k = 1; k < 40; k++) {
        const double n = 2.0 * (double)k - 1.0;
        const double next = term * (mu - n * n) / (8.0 * (double)k) / x;
        if (fabs(next) > fabs(term) || fabs(next) < 1e-18) break;
        term = next;
        const double part = (k >> 1) % 2 == 1 ? -term : term;
        if (k % 2 == 0) even += part;
        else odd += part;
    }
    /* Of the sum and the difference of sine and cosine the one that cancels is had from their product, cos 2x. */
    const double s = sin(x), c = cos(x);
    const double product = x < 1e300 ? -cos(2.0 * x) : (s + c) * (s - c);
    const double sum = s * c < 0.0 ? product / (s - c) : s + c, difference = s * c < 0.0 ? s - c : product / (s + c);
    const double sine = order == 0 ? difference : -sum, cosine = order == 0 ? sum : difference;
    return 0.5641895835477563 / sqrt(x) * (second == 0 ? cosine * even - sine * odd : sine * even + cosine * odd);
}
/* Y up to 20: 2/pi times the sum of (-q)^k / (k! (k+order)!) (ln(x/2) - (psi(k + 1) + psi(k + 1 + order)) / 2), for order 1 times x/2 and
   less 2/(pi x). */
static inline double adm_bessel_y_near_f64(int order, double x) {
    const adm_dekker_f64 half = adm_dekker_from_f64(0.5 * x), one = adm_dekker_from_f64(1.0), two_over_pi = {0.6366197723675814, -3.935735335036497e-17};
    const adm_dekker_f64 minus_q = adm_dekker_negative_f64(adm_dekker_times_f64(half, half)), euler = {0.5772156649015329, -4.942915152430645e-18};
    /* The logarithm less psi, which grows. */
    adm_dekker_f64 log_less_psi = adm_dekker_plus_f64(adm_dekker_ln_f64(half), euler), term = one;
    if (order == 1) log_less_psi = adm_dekker_minus_f64(log_less_psi, adm_dekker_from_f64(0.5));
    adm_dekker_f64 sum = log_less_psi;
    for (int k = 1; k < 100; k++) {
        const adm_dekker_f64 n = adm_dekker_from_f64((double)k), after = adm_dekker_from_f64((double)(k + order));
        term = adm_dekker_over_f64(adm_dekker_over_f64(adm_dekker_times_f64(term, minus_q), n), after);
        const adm_dekker_f64 steps = adm_dekker_plus_f64(adm_dekker_over_f64(adm_dekker_from_f64(0.5), n), adm_dekker_over_f64(adm_dekker_from_f64(0.5), after));
        log_less_psi = adm_dekker_minus_f64(log_less_psi, steps);
        const adm_dekker_f64 part = adm_dekker_times_f64(term, log_less_psi);
        sum = adm_dekker_plus_f64(sum, part);
        if (fabs(term.high) < 1.0 && fabs(part.high) < fabs(sum.high) * 1e-20) break;
    }
    if (order == 1) sum = adm_dekker_minus_f64(adm_dekker_times_f64(sum, half), adm_dekker_over_f64(one, adm_dekker_from_f64(x)));
    const adm_dekker_f64 value = adm_dekker_times_f64(two_over_pi, sum);
    return value.high + value.low;
}
static inline double adm_j0_f64(double x) {
    const double a = fabs(x);
    if (a == INFINITY) return 0.0;
    if (a > 20.0) return adm_bessel_far_f64(0, 0, a);
    const adm_dekker_f64 sum = adm_bessel_series_f64(0, a, -1.0);
    return sum.high + sum.low;
}
static inline double adm_j1_f64(double x) {
    const double a = fabs(x);
    if (a == INFINITY) return 0.0;
    if (a > 20.0) return x < 0.0 ? -adm_bessel_far_f64(1, 0, a) : adm_bessel_far_f64(1, 0, a);
    const adm_dekker_f64 sum = adm_bessel_series_f64(1, a, -1.0);
    return 0.5 * x * (sum.high + sum.low);
}
static inline double adm_y0_f64(double x) {
    if (!(x >= 0.0)) return (double)adm_nan();
    if (x == 0.0) return -INFINITY;
    if (x == INFINITY) return 0.0;
    /* Of the smallest only the logarithm is left. */
    if (x < 1e-17) return 0.6366197723675814 * (log(x) - 0.11593151565841245);
    return x > 20.0 ? adm_bessel_far_f64(0, 1, x) : adm_bessel_y_near_f64(0, x);
}
static inline double adm_y1_f64(double x) {
    if (!(x >= 0.0)) return (double)adm_nan();
    if (x == 0.0) return -INFINITY;
    if (x == INFINITY) return 0.0;
    /* Of the smallest only the pole is left. */
    if (x < 1e-17) return -0.6366197723675814 / x;
    return x > 20.0 ? adm_bessel_far_f64(1, 1, x) : adm_bessel_y_near_f64(1, x);
}
