/* The gamma function's logarithm and its derivatives, and Hurwitz' zeta function, as adamant_ir's special/lgamma.rs and
   special/gamma.rs. */

/* What Stirling's formula lacks, from 32 on (DLMF 5.11.1). */
static inline adm_dekker_f64 adm_stirling_rest_f64(adm_dekker_f64 a) {
    const double above[11] = {1.0, -1.0, 1.0, -1.0, 1.0, -691.0, 1.0, -3617.0, 43867.0, -174611.0, 77683.0};
    const double below[11] = {12.0, 360.0, 1260.0, 1680.0, 1188.0, 360360.0, 156.0, 122400.0, 244188.0, 125400.0, 5796.0};
    const adm_dekker_f64 r = adm_dekker_over_f64(adm_dekker_from_f64(1.0), adm_dekker_times_f64(a, a));
    adm_dekker_f64 sum = adm_dekker_from_f64(0.0);
    for (int k = 10; k >= 0; k--) sum = adm_dekker_plus_f64(adm_dekker_times_f64(sum, r), adm_dekker_over_f64(adm_dekker_from_f64(above[k]), adm_dekker_from_f64(below[k])));
    return adm_dekker_over_f64(sum, a);
}
/* The logarithm of the gamma function of x > 0. */
static inline adm_dekker_f64 adm_lgamma_pair_f64(adm_dekker_f64 x) {
    const adm_dekker_f64 log_sqrt_tau = {0.9189385332046728, -3.8782941580672414e-17};
    adm_dekker_f64 at = x, product = adm_dekker_from_f64(1.0);
    for (int k = 0; k < 40 && at.high < 32.0; k++) {
        product = adm_dekker_times_f64(product, at);
        at = adm_dekker_plus_f64(at, adm_dekker_from_f64(1.0));
    }
    const adm_dekker_f64 grown = adm_dekker_times_f64(adm_dekker_minus_f64(at, adm_dekker_from_f64(0.5)), adm_dekker_ln_f64(at));
    const adm_dekker_f64 stirling = adm_dekker_plus_f64(adm_dekker_plus_f64(adm_dekker_minus_f64(grown, at), log_sqrt_tau), adm_stirling_rest_f64(at));
    return adm_dekker_minus_f64(stirling, adm_dekker_ln_f64(product));
}
/* To the left of zero it is a difference of two logarithms, of which some libraries lose digits; where much of them goes it is by
   reflection (DLMF 5.5.3) in pairs. */
static inline double adm_lgamma_f64(double x) {
    const double value = lgamma(x);
    if (!(x <= -2.0) || !(fabs(value) <= 0.5 * lgamma(1.0 - x)) || x == round(x)) return value;
    adm_dekker_f64 sine = adm_dekker_sin_pi_f64(x - round(x));
    if (sine.high < 0.0) sine = adm_dekker_negative_f64(sine);
    const adm_dekker_f64 reflected = adm_dekker_ln_f64(adm_dekker_over_f64(adm_dekker_pi_f64(), sine));
    const adm_dekker_f64 sum = adm_dekker_minus_f64(reflected, adm_lgamma_pair_f64(adm_dekker_sum_f64(1.0, -x)));
    return sum.high + sum.low;
}
/* Near a root little is left of any part of its formulas: they are in pairs (DLMF 5.5.2, 5.5.4, 5.11.2). */
static inline double adm_digamma_near_root_f64(double x) {
    const double above[11] = {1.0, -1.0, 1.0, -1.0, 1.0, -691.0, 1.0, -3617.0, 43867.0, -174611.0, 854513.0};
    const double below[11] = {12.0, 120.0, 252.0, 240.0, 132.0, 32760.0, 12.0, 8160.0, 14364.0, 6600.0, 3036.0};
    const adm_dekker_f64 one = adm_dekker_from_f64(1.0);
    adm_dekker_f64 at = x < 0.0 ? adm_dekker_sum_f64(1.0, -x) : adm_dekker_from_f64(x), steps = adm_dekker_from_f64(0.0), series = adm_dekker_from_f64(0.0);
    for (int k = 0; k < 40 && at.high < 32.0; k++) {
        steps = adm_dekker_plus_f64(steps, adm_dekker_over_f64(one, at));
        at = adm_dekker_plus_f64(at, one);
    }
    const adm_dekker_f64 r = adm_dekker_over_f64(one, adm_dekker_times_f64(at, at));
    for (int k = 10; k >= 0; k--) series = adm_dekker_times_f64(adm_dekker_plus_f64(series, adm_dekker_over_f64(adm_dekker_from_f64(above[k]), adm_dekker_from_f64(below[k]))), r);
    const adm_dekker_f64 straight = adm_dekker_minus_f64(adm_dekker_ln_f64(at), adm_dekker_over_f64(adm_dekker_from_f64(0.5), at));
    adm_dekker_f64 value = adm_dekker_minus_f64(adm_dekker_minus_f64(straight, series), steps);
    if (x < 0.0) {
        const double off = x - round(x);
        value = adm_dekker_minus_f64(value, adm_dekker_over_f64(adm_dekker_times_f64(adm_dekker_pi_f64(), adm_dekker_cos_pi_f64(off)), adm_dekker_sin_pi_f64(off)));
    }
    return value.high + value.low;
}
/* Of x from 0.8 on: around the root by Taylor's series, else recurrence (DLMF 5.5.2) up to 10 and the asymptotic series (5.11.2). */
static inline double adm_digamma_right_f64(double x) {
    if (x >= 1.2 && x < 1.75) {
        const double taylor[25] = {
            0.9676722454476212, -0.4427631689835921, 0.258499760955651, -0.16394270544240652, 0.10782405069126237, -0.07219956125645471, 0.04880428816414311,
            -0.03316112647484736, 0.022597648232218104, -0.01542476590494896, 0.010538791616612175, -0.007204534386356869, 0.004926781395729853,
            -0.003369801655439328, 0.002305126326734928, -0.0015769367714301972, 0.0010788252019162967, -0.0007380709389960052, 0.000504953265834602,
            -0.0003454680251063077, 0.00023635601564027053, -0.00016170622091974803, 0.0001106337276874741, -7.569179582195066e-05, 5.178575795222081e-05};
        /* The root itself is a sum of two numbers. */
        const double off = (x - 1.4616321449683622) - 9.549995429965697e-17;
        double sum = 0.0;
        for (int k = 24; k >= 0; k--) sum = sum * off + taylor[k];
        return sum * off;
    }
    const double coefficients[8] = {1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0, -3617.0 / 8160.0};
    double shifted = x, steps = 0.0, series = 0.0;
    for (int k = 0; k < 12 && shifted < 10.0; k++) {
        steps += 1.0 / shifted;
        shifted += 1.0;
    }
    const double r = 1.0 / (shifted * shifted);
    for (int k = 7; k >= 0; k--) series = series * r + coefficients[k];
    const double value = log(shifted) - 0.5 / shifted - r * series - steps;
    return fabs(value) < 1.0 ? adm_digamma_near_root_f64(x) : value;
}
/* Below 0.8 the pole is most of it: a sum of all steps would be rounded in its units. */
static inline double adm_digamma_positive_f64(double x) {
    if (x < 1e-17) return -1.0 / x - 0.5772156649015329;
    return x < 0.8 ? adm_digamma_right_f64(x + 1.0) - 1.0 / x : adm_digamma_right_f64(x);
}
/* At 0: infinity of the other sign; NaN at negative integers; reflection (DLMF 5.5.4) below. */
static inline double adm_digamma_f64(double x) {
    if (x == 0.0) return copysign(INFINITY, -x);
    if (!(x < 0.0)) return adm_digamma_positive_f64(x);
    if (x == floor(x)) return (double)adm_nan();
    const double other_side = adm_digamma_positive_f64(1.0 - x);
    const double value = other_side - 3.141592653589793 * adm_cos_pi_f64(x) / adm_sin_pi_f64(x);
    return fabs(value) < 0.5 * fabs(other_side) || fabs(value) < 2.0 ? adm_digamma_near_root_f64(x) : value;
}
/* Recurrence up to 10 and the asymptotic series (DLMF 5.15.5, 5.15.8). */
static inline double adm_trigamma_right_f64(double x) {
    const double coefficients[8] = {1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0, 7.0 / 6.0, -3617.0 / 510.0};
    double shifted = x, steps = 0.0, series = 0.0;
    for (int k = 0; k < 12 && shifted < 10.0; k++) {
        steps += 1.0 / (shifted * shifted);
        shifted += 1.0;
    }
    const double r = 1.0 / (shifted * shifted);
    for (int k = 7; k >= 0; k--) series = series * r + coefficients[k];
    return steps + 1.0 / shifted + 0.5 * r + r / shifted * series;
}
static inline double adm_trigamma_f64(double x) {
    if (!(x <= 0.0)) return adm_trigamma_right_f64(x);
    if (x == floor(x)) return INFINITY;
    /* Reflection (DLMF 5.15.6). */
    const double ratio = 3.141592653589793 / adm_sin_pi_f64(x);
    return ratio * ratio - adm_trigamma_right_f64(1.0 - x);
}
/* A place is a pair: what is rounded off it is missing in its power, n times. */
static inline double adm_zeta_power_f64(adm_dekker_f64 at, double n) {
    const double whole = pow(at.high, n);
    return at.low == 0.0 ? whole : whole + whole * (n * at.low / at.high);
}
/* Of q > 0 and s > 1: Euler and Maclaurin's formula (DLMF 25.11.28 for its terms). From where its terms begin, each is at most a
   36th of the one before. */
static inline double adm_zeta_right_f64(double s, double q) {
    /* Bernoulli's numbers over (2k)!. */
    const double bernoulli[12] = {
        0.08333333333333333, -0.001388888888888889, 3.306878306878307e-05, -8.267195767195768e-07, 2.08767569878681e-08, -5.284190138687493e-10,
        1.3382536530684679e-11, -3.3896802963225827e-13, 8.586062056277845e-15, -2.174868698558062e-16, 5.5090028283602295e-18, -1.3954464685812522e-19};
    const adm_dekker_f64 one = adm_dekker_from_f64(1.0);
    adm_dekker_f64 at = adm_dekker_from_f64(q), sum = adm_dekker_from_f64(0.0);
    for (int k = 0; k < 4000 && at.high < 12.0 + s; k++) {
        const double term = adm_zeta_power_f64(at, -s);
        const adm_dekker_f64 next = adm_dekker_plus_f64(sum, adm_dekker_from_f64(term));
        if (!(fabs(next.high) < INFINITY)) return INFINITY;
        if (term <= next.high * 1e-18) return next.high + next.low;
        sum = next;
        at = adm_dekker_plus_f64(at, one);
    }
    const double edge = adm_zeta_power_f64(at, -s);
    /* Not edge times the place, of which the first is 0 for a large number already. */
    const adm_dekker_f64 rest = adm_dekker_over_f64(adm_dekker_from_f64(adm_zeta_power_f64(at, 1.0 - s)), adm_dekker_from_f64(s - 1.0));
    double factor = edge * s / at.high, series = 0.5 * edge;
    for (int k = 0; k < 12; k++) {
        const double term = bernoulli[k] * factor;
        series += term;
        if (fabs(term) < (sum.high + rest.high) * 1e-18) break;
        const double n = s + 2.0 * (double)k;
        factor *= (n + 1.0) * (n + 2.0) / (at.high * at.high);
    }
    const adm_dekker_f64 all = adm_dekker_plus_f64(sum, adm_dekker_plus_f64(rest, adm_dekker_from_f64(series)));
    return all.high + all.low;
}
/* Of a negative q, for whole s: the terms below zero are summed as the difference of two series. */
static inline double adm_zeta_f64(double s, double q) {
    if (s == 1.0) return INFINITY;
    if (!(s > 1.0) || q != q) return (double)adm_nan();
    if (q > 0.0) return adm_zeta_right_f64(s, q);
    if (q == floor(q)) return INFINITY;
    if (s != floor(s)) return (double)adm_nan();
    const double f = q - floor(q);
    const double below = f == 1.0 ? INFINITY : adm_zeta_right_f64(s, 1.0 - f) - adm_zeta_right_f64(s, 1.0 - q);
    return adm_zeta_right_f64(s, f) + (fmod(s, 2.0) == 0.0 ? below : -below);
}
/* The factorial times zeta, with the sign of the order (DLMF 25.11.12). NaN unless n is a whole number from 0 on. */
static inline double adm_polygamma_f64(double x, double n) {
    if (n < 0.0 || n != trunc(n) || n == INFINITY) return (double)adm_nan();
    if (n == 0.0) return adm_digamma_f64(x);
    if (n == 1.0) return adm_trigamma_f64(x);
    double factorial = 1.0;
    if (n < 170.0) {
        for (int k = 2; k <= (int)n; k++) factorial *= (double)k;
    } else {
        factorial = tgamma(n + 1.0);
    }
    const double size = factorial * adm_zeta_f64(n + 1.0, x);
    return fmod(n, 2.0) == 0.0 ? -size : size;
}
