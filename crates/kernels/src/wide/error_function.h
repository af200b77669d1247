/* The error function's relatives: scaled, inverse, and those of the normal distribution, as adamant_ir's
   special/error_function.rs. */

/* e^(x^2); the rounding error of x^2 enters as a factor. */
static inline double adm_exp_square_f64(double x) {
    const double square = x * x;
    const double e = exp(square);
    return e == INFINITY ? e : e * (1.0 + fma(x, x, -square));
}
/* Of x from 0 on. Below 25 by its definition, above by the asymptotic series (DLMF 7.12.1). */
static inline double adm_erfcx_right_f64(double x) {
    if (!(x >= 25.0)) return adm_exp_square_f64(x) * erfc(x);
    const double r = 0.5 / (x * x);
    double series = 1.0;
    for (int k = 13; k >= 1; k -= 2) series = 1.0 - (double)k * r * series;
    return series * (0.5 * 1.1283791670955126) / x;
}
static inline double adm_erfcx_f64(double x) {
    return x < 0.0 ? 2.0 * adm_exp_square_f64(x) - adm_erfcx_right_f64(-x) : adm_erfcx_right_f64(x);
}
/* The inverse of erf up to one half: a first guess by Giles ("Approximating the erfinv function", GPU Computing Gems, 2011), two
   steps of Halley on erf. */
static inline double adm_erfinv_near_f64(double x) {
    const double guess[9] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941};
    const double w = -log((1.0 - x) * (1.0 + x)) - 2.5;
    double y = 0.0;
    for (int k = 0; k < 9; k++) y = y * w + guess[k];
    y *= x;
    for (int k = 0; k < 2; k++) {
        const double step = (erf(y) - x) / (1.1283791670955126 * exp(-y * y));
        y -= step / (1.0 + y * step);
    }
    return y;
}
/* The inverse of erfc below one half: Newton's method on ln erfc(y) = ln erfcx(y) - y^2, which is nearly a parabola and does not
   underflow. */
static inline double adm_erfcinv_far_f64(double q) {
    if (!(q >= 0.0)) return (double)adm_nan();
    if (q == 0.0) return INFINITY;
    const double l = -log(q);
    double y = sqrt(fmax(l - 0.5 * log(3.141592653589793 * l), 0.2));
    for (int k = 0; k < 6; k++) {
        const double e = adm_erfcx_right_f64(y);
        y += (log(e) - y * y + l) * e / 1.1283791670955126;
    }
    return y;
}
/* Beyond one half through the inverse of erfc, where 1 - |x| is exact. */
static inline double adm_erfinv_f64(double x) {
    return fabs(x) > 0.5 ? copysign(adm_erfcinv_far_f64(1.0 - fabs(x)), x) : adm_erfinv_near_f64(x);
}
static inline double adm_erfcinv_f64(double q) {
    const double side = q > 1.0 ? 2.0 - q : q;
    const double y = side >= 0.5 ? adm_erfinv_near_f64(1.0 - side) : adm_erfcinv_far_f64(side);
    return q > 1.0 ? -y : y;
}
/* erfc(-x / sqrt 2) / 2, with x / sqrt 2 in two parts: deep in the tail a rounding of the argument would be magnified x^2 times. */
static inline double adm_ndtr_f64(double x) {
    const double z = -x * 0.7071067811865476;
    const double rest = fma(-x, 0.7071067811865476, -z) + x * 4.833646656726457e-17;
    return 0.5 * (erfc(z) - 1.1283791670955126 * exp(-z * z) * (fabs(rest) < INFINITY ? rest : 0.0));
}
/* In the left tail through erfcx, elsewhere through the other side's small probability. */
static inline double adm_log_ndtr_f64(double x) {
    return x < -1.0 ? log(adm_erfcx_right_f64(-x * 0.7071067811865476)) - 0.6931471805599453 - 0.5 * x * x : log1p(-adm_ndtr_f64(-x));
}
static inline double adm_ndtri_f64(double p) {
    return -1.4142135623730951 * adm_erfcinv_f64(2.0 * p);
}
