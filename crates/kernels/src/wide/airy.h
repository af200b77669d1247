/* The function of Airy and its derivative, as adamant_ir's special/airy.rs: right of 1/2 by Bessel functions of orders 1/3 and 2/3
   (DLMF 9.6.2, 9.6.3), to -9.5 by the Taylor series about the next whole number, left of that by the asymptotic series (9.7.9, 9.7.10). */

/* 2/3 x^(3/2) as a pair: its rounding alone would be an error of so many units of the result. */
static inline adm_dekker_f64 adm_airy_exponent_f64(double x) {
    const double root = sqrt(x);
    const double root_low = fma(-root, root, x) / (2.0 * root);
    const double product = x * root;
    const double product_low = fma(x, root, -product) + x * root_low;
    const double high = product * 2.0 / 3.0;
    adm_dekker_f64 v = {high, (fma(high, -1.5, product) + product_low) * 2.0 / 3.0};
    return v;
}
/* The value (`which` 0) or the derivative (1); `y'' = x y` gives the coefficients. */
static inline double adm_airy_near_f64(double x, int which) {
    const double values[10] = {0.3550280538878172, 0.5355608832923521, 0.22740742820168558, -0.37881429367765806, -0.07026553294928951,
                               0.35076100902411433, -0.3291451736298231, 0.18428083525050565, -0.0527050503563862, -0.022133721547341403};
    const double slopes[10] = {-0.2588194037928068, -0.01016056711664521, 0.618259020741691, 0.3145837692165988, -0.7906285753685813,
                               0.32719281855444315, 0.3459354872813429, -0.7710081684101265, 0.9355609381983065, -0.9756639809263316};
    const double center = fmin(round(x), 0.0);
    const int number = center > -9.5 ? (int)-center : 0;
    const double away = x - center;
    double before = 0.0, here = values[number], next = slopes[number], power = away;
    double value = here + next * away, slope = next;
    for (int k = 0; k < 30; k++) {
        const double n = (double)k;
        const double after = (center * here + before) / ((n + 1.0) * (n + 2.0));
        slope += (n + 2.0) * after * power;
        power *= away;
        value += after * power;
        before = here;
        here = next;
        next = after;
    }
    return which == 0 ? value : slope;
}
/* At -z. */
static inline double adm_airy_far_f64(double z, int which) {
    const adm_dekker_f64 zeta = adm_airy_exponent_f64(z);
    double term = 1.0, even = 1.0, odd = 0.0;
    for (int k = 1; k < 40; k++) {
        const double n = (double)k;
        const double after = term * (6.0 * n - 5.0) * (6.0 * n - 3.0) * (6.0 * n - 1.0) / (216.0 * n * (2.0 * n - 1.0)) / zeta.high;
        if (fabs(after) > fabs(term) || fabs(after) < 1e-18) break;
        term = after;
        const double signed_term = (k >> 1) % 2 == 1 ? -term : term;
        const double part = which == 0 ? signed_term : -(signed_term * (6.0 * n + 1.0) / (6.0 * n - 1.0));
        if (k % 2 == 0) even += part;
        else odd += part;
    }
    /* Of the sum of both parts: far out even the lower one is many turns. */
    const double s = sin(zeta.high), c = cos(zeta.high), s_low = sin(zeta.low), c_low = cos(zeta.low);
    const double s_all = s * c_low + c * s_low, c_all = c * c_low - s * s_low;
    const double sine = (s_all - c_all) * 0.7071067811865476, cosine = (s_all + c_all) * 0.7071067811865476;
    const double fourth = sqrt(sqrt(z));
    return which == 0 ? 0.5641895835477563 / fourth * (cosine * even + sine * odd) : 0.5641895835477563 * fourth * (sine * even - cosine * odd);
}
static inline double adm_airy_f64(double x, int which) {
    /* From about 108 on it is below the smallest number; far to the left the phase would overflow. */
    if (x > 200.0) return which == 0 ? 0.0 : -0.0;
    if (x < -1e200) return which == 0 ? 0.0 : (double)adm_nan();
    if (x <= -9.5) return adm_airy_far_f64(-x, which);
    if (!(x > 0.5)) return adm_airy_near_f64(x, which);
    const adm_dekker_f64 zeta = adm_airy_exponent_f64(x);
    const double shrunk = exp(-zeta.high) * (1.0 - zeta.low);
    return which == 0 ? shrunk * sqrt(x / 3.0) / 3.141592653589793 * adm_bessel_k_scaled_f64(1.0 / 3.0, zeta.high)
                      : -shrunk * x / 5.441398092702653 * adm_bessel_k_scaled_f64(2.0 / 3.0, zeta.high);
}
static inline double adm_airy_ai_f64(double x) {
    return adm_airy_f64(x, 0);
}
static inline double adm_airy_ai_derivative_f64(double x) {
    return adm_airy_f64(x, 1);
}
