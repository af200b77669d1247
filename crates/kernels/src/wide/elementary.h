/* Signs, rests of divisions, scales, and the sine of multiples of pi, as adamant_ir's special.rs. */

static inline double adm_sign_f64(double x) {
    return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0;
}
/* Which sign a computed NaN has is the compiler's affair: it counts as none. */
static inline bool adm_signbit_f64(double x) {
    return x == x && copysign(1.0, x) < 0.0;
}
static inline double adm_fmax_f64(double x, double y) {
    return fmax(x, y);
}
static inline double adm_fmin_f64(double x, double y) {
    return fmin(x, y);
}
static inline double adm_deg2rad_f64(double x) {
    return x * (3.141592653589793 / 180.0);
}
static inline double adm_rad2deg_f64(double x) {
    return x * 57.29577951308232;
}
/* Where nothing of the smaller one is left it is the larger one: a unit more, which a library may be off, runs over at the end of
   the range. */
static inline double adm_hypot_f64(double x, double y) {
    const double large = fmax(fabs(x), fabs(y)), small = fmin(fabs(x), fabs(y));
    return small < 1e-9 * large ? large : hypot(x, y);
}
/* As Python and PyTorch define it: exact where x / y rounds up to an integer that it is not. */
static inline double adm_floor_divide_f64(double x, double y) {
    if (y == 0.0) return x / y;
    const double rest = fmod(x, y);
    double whole = (x - rest) / y;
    if (rest != 0.0 && (y < 0.0) != (rest < 0.0)) whole -= 1.0;
    if (whole == 0.0) return copysign(0.0, x / y);
    const double down = floor(whole);
    return whole - down > 0.5 ? down + 1.0 : down;
}
static inline double adm_remainder_f64(double x, double y) {
    const double rest = fmod(x, y);
    return rest != 0.0 && (rest < 0.0) != (y < 0.0) ? rest + y : rest;
}
/* A whole y scales exactly, without the overflow or underflow of 2^y alone. */
static inline double adm_ldexp_f64(double x, double y) {
    return y == trunc(y) && fabs(y) < 1e6 ? ldexp(x, (int)y) : x * exp2(y);
}
/* Exact at integers and half integers: the argument is reduced before pi is multiplied in. */
static inline double adm_sin_pi_f64(double x) {
    const double r = fmod(x, 2.0);
    const double folded = r > 1.5 ? r - 2.0 : r < -1.5 ? r + 2.0 : r > 0.5 ? 1.0 - r : r < -0.5 ? -1.0 - r : r;
    return sin(3.141592653589793 * folded);
}
static inline double adm_cos_pi_f64(double x) {
    const double r = fabs(fmod(x, 2.0));
    return adm_sin_pi_f64(0.5 - (r > 1.0 ? 2.0 - r : r));
}
static inline double adm_sinc_f64(double x) {
    return x == 0.0 ? 1.0 : adm_sin_pi_f64(x) / (3.141592653589793 * x);
}
/* (cos(pi x) - sinc x) / x, near zero by its Taylor series pi (-1)^k 2k u^(2k-1) / (2k+1)!, u = pi x, where those two cancel. */
static inline double adm_sinc_derivative_f64(double x) {
    if (fabs(x) >= 0.5 || x != x) return (adm_cos_pi_f64(x) - adm_sinc_f64(x)) / x;
    const double u = 3.141592653589793 * x;
    double term = u, sum = 0.0;
    for (int k = 1; k < 13; k++) {
        const double n = 2.0 * (double)k;
        term *= -(k == 1 ? 1.0 : u * u) / (n * (n + 1.0));
        sum += n * term;
    }
    return 3.141592653589793 * sum;
}
static inline double adm_spherical_j0_f64(double x) {
    if (x == 0.0) return 1.0;
    return fabs(x) == INFINITY ? 0.0 : sin(x) / x;
}
