/* The regularized incomplete gamma functions in pairs, as adamant_ir's special/incomplete.rs: their first factor is e to the power of
   a difference of large numbers, their series and fractions are long. */

/* a ln(a/x) + x - a without cancellation near x = a (Loader, "Fast and Accurate Computation of Binomial Probabilities", 2000). */
static inline adm_dekker_f64 adm_gamma_deviance_f64(adm_dekker_f64 a, adm_dekker_f64 x) {
    const adm_dekker_f64 apart = adm_dekker_minus_f64(a, x);
    if (fabs(apart.high) > 0.1 * (a.high + x.high)) return adm_dekker_minus_f64(adm_dekker_times_f64(a, adm_dekker_ln_f64(adm_dekker_over_f64(a, x))), apart);
    const adm_dekker_f64 v = adm_dekker_over_f64(apart, adm_dekker_plus_f64(a, x)), square = adm_dekker_times_f64(v, v);
    adm_dekker_f64 sum = adm_dekker_times_f64(apart, v), power = adm_dekker_times_f64(adm_dekker_times_f64(a, v), adm_dekker_from_f64(2.0));
    for (int k = 1; k < 60; k++) {
        power = adm_dekker_times_f64(power, square);
        const adm_dekker_f64 term = adm_dekker_over_f64(power, adm_dekker_from_f64(2.0 * (double)k + 1.0));
        sum = adm_dekker_plus_f64(sum, term);
        if (fabs(term.high) <= sum.high * 1e-30) break;
    }
    return sum;
}
/* x^a e^-x over the gamma function of a + 1, times a factor: by Loader's saddle point form where a is large. Multiplied before the
   power is rounded, for that may be denormal where the product is not. */
static inline double adm_gamma_weighted_f64(double a, double x, adm_dekker_f64 factor) {
    const adm_dekker_f64 aa = adm_dekker_from_f64(a), xx = adm_dekker_from_f64(x);
    adm_dekker_f64 log_weight;
    if (a < 32.0) {
        const adm_dekker_f64 whole = adm_dekker_minus_f64(adm_dekker_times_f64(aa, adm_dekker_ln_f64(xx)), xx);
        log_weight = adm_dekker_minus_f64(whole, adm_lgamma_pair_f64(adm_dekker_plus_f64(aa, adm_dekker_from_f64(1.0))));
    } else {
        log_weight = adm_dekker_negative_f64(adm_dekker_plus_f64(adm_stirling_rest_f64(aa), adm_gamma_deviance_f64(aa, xx)));
        factor = adm_dekker_over_f64(factor, adm_dekker_sqrt_f64(adm_dekker_times_f64(adm_dekker_tau_f64(), aa)));
    }
    if (log_weight.high < -2000.0) return 0.0;
    int n = 0;
    const adm_dekker_f64 power = adm_dekker_exp_f64(log_weight, &n);
    const adm_dekker_f64 product = adm_dekker_times_f64(power, factor);
    return scalbn(product.high + product.low, n);
}
/* P by its series (DLMF 8.7.1 multiplied out), good for x < a + 1. Of a up to 10^12 it has some ten million terms. */
static inline double adm_igamma_series_f64(double a, double x) {
    adm_dekker_f64 term = adm_dekker_from_f64(1.0), sum = term, n = adm_dekker_from_f64(a);
    for (int k = 0; k < 20000000 && term.high > sum.high * 1e-20; k++) {
        n = adm_dekker_plus_f64(n, adm_dekker_from_f64(1.0));
        term = adm_dekker_over_f64(adm_dekker_times_f64(term, adm_dekker_from_f64(x)), n);
        sum = adm_dekker_plus_f64(sum, term);
    }
    return adm_gamma_weighted_f64(a, x, sum);
}
/* Q by its continued fraction (DLMF 8.9.2), evaluated by Lentz's method, good for x > a + 1. */
static inline double adm_igammac_fraction_f64(double a, double x) {
    const adm_dekker_f64 aa = adm_dekker_from_f64(a), one = adm_dekker_from_f64(1.0);
    adm_dekker_f64 b = adm_dekker_minus_f64(adm_dekker_plus_f64(adm_dekker_from_f64(x), one), aa);
    adm_dekker_f64 c = adm_dekker_from_f64(1e300), d = adm_dekker_over_f64(one, b), h = d;
    for (int k = 1; k < 100000; k++) {
        const adm_dekker_f64 i = adm_dekker_from_f64((double)k);
        const adm_dekker_f64 n = adm_dekker_times_f64(i, adm_dekker_minus_f64(aa, i));
        b = adm_dekker_plus_f64(b, adm_dekker_from_f64(2.0));
        d = adm_dekker_over_f64(one, adm_dekker_plus_f64(adm_dekker_times_f64(n, d), b));
        c = adm_dekker_plus_f64(b, adm_dekker_over_f64(n, c));
        const adm_dekker_f64 step = adm_dekker_times_f64(c, d);
        h = adm_dekker_times_f64(h, step);
        if (fabs(adm_dekker_minus_f64(step, one).high) < 1e-20) break;
    }
    return adm_gamma_weighted_f64(a, x, adm_dekker_times_f64(aa, h));
}
/* The logarithm of the gamma function of 1 + a, which is 0 at 0; below an eighth by Taylor's series (DLMF 5.7.3). */
static inline adm_dekker_f64 adm_lgamma_1p_f64(adm_dekker_f64 a) {
    const adm_dekker_f64 euler = {0.5772156649015329, -4.942915152430645e-18};
    if (a.high > 0.125) return adm_lgamma_pair_f64(adm_dekker_plus_f64(a, adm_dekker_from_f64(1.0)));
    double sum = 0.0;
    for (int k = 39; k >= 2; k--) sum = adm_zeta_right_f64((double)k, 1.0) / (double)k - a.high * sum;
    return adm_dekker_times_f64(a, adm_dekker_minus_f64(adm_dekker_times_f64(a, adm_dekker_from_f64(sum)), euler));
}
/* Q for small x: 1 - x^a (1 + a S) over the gamma function of 1 + a, S the sum of (-x)^n / (n! (a+n)), without the cancellation at small a. */
static inline double adm_igammac_series_f64(double a, double x) {
    const adm_dekker_f64 aa = adm_dekker_from_f64(a), xx = adm_dekker_from_f64(x), one = adm_dekker_from_f64(1.0);
    adm_dekker_f64 power = one, sum = adm_dekker_from_f64(0.0), minus_1 = one;
    for (int k = 1; k < 60; k++) {
        const double n = (double)k;
        power = adm_dekker_over_f64(adm_dekker_times_f64(power, xx), adm_dekker_from_f64(-n));
        const adm_dekker_f64 term = adm_dekker_over_f64(power, adm_dekker_plus_f64(aa, adm_dekker_from_f64(n)));
        sum = adm_dekker_plus_f64(sum, term);
        if (fabs(term.high) < 1e-30 * fabs(sum.high)) break;
    }
    const adm_dekker_f64 l = adm_dekker_minus_f64(adm_dekker_times_f64(aa, adm_dekker_ln_f64(xx)), adm_lgamma_1p_f64(aa));
    if (fabs(l.high) < 0.3) {
        /* e^l - 1 by its series. */
        for (int k = 25; k >= 2; k--) minus_1 = adm_dekker_plus_f64(one, adm_dekker_over_f64(adm_dekker_times_f64(l, minus_1), adm_dekker_from_f64((double)k)));
        minus_1 = adm_dekker_times_f64(minus_1, l);
    } else {
        int n = 0;
        const adm_dekker_f64 p = adm_dekker_exp_f64(l, &n);
        minus_1 = adm_dekker_minus_f64(adm_dekker_scaled_f64(p, n), one);
    }
    const adm_dekker_f64 more = adm_dekker_times_f64(adm_dekker_times_f64(adm_dekker_plus_f64(minus_1, one), aa), sum);
    const adm_dekker_f64 all = adm_dekker_plus_f64(minus_1, more);
    return -(all.high + all.low);
}
/* P, or Q, of an a so large that all happens beside x = a: Temme's uniform expansion (DLMF 8.12.3, its first term). */
static inline double adm_igamma_large_f64(double a, double x, bool upper) {
    const double r = x / a - 1.0;
    if (fabs(r) > 0.01) return (r > 0.0) != upper ? 1.0 : 0.0;
    double series = 0.0;
    for (int k = 11; k >= 0; k--) series = 1.0 / ((double)k + 2.0) - r * series;
    const double deviance = a * r * r * series;
    const double side = copysign(sqrt(deviance), r), rest = exp(-deviance) / (3.0 * sqrt(6.283185307179586 * a));
    return upper ? 0.5 * erfc(side) - rest : 0.5 * erfc(-side) + rest;
}
/* P at the edges, by PyTorch's conventions; -1 inside. */
static inline double adm_igamma_edge_f64(double a, double x) {
    if (!(a >= 0.0 && x >= 0.0)) return (double)adm_nan();
    if (a == 0.0) return x > 0.0 ? 1.0 : (double)adm_nan();
    if (x == 0.0) return 0.0;
    if (a == INFINITY) return x == INFINITY ? (double)adm_nan() : 0.0;
    return x == INFINITY ? 1.0 : -1.0;
}
static inline double adm_igamma_f64(double a, double x) {
    const double edge = adm_igamma_edge_f64(a, x);
    if (!(edge == -1.0)) return edge;
    if (a > 1e12) return adm_igamma_large_f64(a, x, false);
    return x < a + 1.0 ? adm_igamma_series_f64(a, x) : 1.0 - adm_igammac_fraction_f64(a, x);
}
static inline double adm_igammac_f64(double a, double x) {
    const double edge = adm_igamma_edge_f64(a, x);
    if (!(edge == -1.0)) return 1.0 - edge;
    if (a > 1e12) return adm_igamma_large_f64(a, x, true);
    if (x < 1.5 && a < 0.5) return adm_igammac_series_f64(a, x);
    return x < a + 1.0 ? 1.0 - adm_igamma_series_f64(a, x) : adm_igammac_fraction_f64(a, x);
}
