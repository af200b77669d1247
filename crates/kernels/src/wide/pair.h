/* Twice the precision of f64, as adamant_ir's special/pair.rs: the sum of two numbers of which the second is at most half a
   unit of the first (T. J. Dekker, "A floating-point technique for extending the available precision", 1971). */

typedef struct { double high, low; } adm_dekker_f64;

static inline adm_dekker_f64 adm_dekker_from_f64(double x) {
    adm_dekker_f64 v = {x, 0.0};
    return v;
}
/* The sum, the larger number first. */
static inline adm_dekker_f64 adm_dekker_of_f64(double large, double small) {
    const double sum = large + small;
    adm_dekker_f64 v = {sum, small - (sum - large)};
    return v;
}
/* The sum of two numbers of any size. */
static inline adm_dekker_f64 adm_dekker_sum_f64(double x, double y) {
    return fabs(x) < fabs(y) ? adm_dekker_of_f64(y, x) : adm_dekker_of_f64(x, y);
}
static inline adm_dekker_f64 adm_dekker_negative_f64(adm_dekker_f64 x) {
    adm_dekker_f64 v = {-x.high, -x.low};
    return v;
}
static inline adm_dekker_f64 adm_dekker_plus_f64(adm_dekker_f64 x, adm_dekker_f64 y) {
    const double sum = x.high + y.high;
    const double back = sum - x.high;
    return adm_dekker_of_f64(sum, (x.high - (sum - back)) + (y.high - back) + x.low + y.low);
}
static inline adm_dekker_f64 adm_dekker_minus_f64(adm_dekker_f64 x, adm_dekker_f64 y) {
    return adm_dekker_plus_f64(x, adm_dekker_negative_f64(y));
}
static inline adm_dekker_f64 adm_dekker_times_f64(adm_dekker_f64 x, adm_dekker_f64 y) {
    const double product = x.high * y.high;
    return adm_dekker_of_f64(product, fma(x.high, y.high, -product) + x.high * y.low + x.low * y.high);
}
static inline adm_dekker_f64 adm_dekker_over_f64(adm_dekker_f64 x, adm_dekker_f64 y) {
    const double ratio = x.high / y.high;
    const adm_dekker_f64 rest = adm_dekker_plus_f64(x, adm_dekker_times_f64(y, adm_dekker_from_f64(-ratio)));
    return adm_dekker_of_f64(ratio, (rest.high + rest.low) / y.high);
}
static inline adm_dekker_f64 adm_dekker_sqrt_f64(adm_dekker_f64 x) {
    const double root = sqrt(x.high);
    const adm_dekker_f64 square = adm_dekker_times_f64(adm_dekker_from_f64(root), adm_dekker_from_f64(root));
    return adm_dekker_of_f64(root, adm_dekker_minus_f64(x, square).high / (2.0 * root));
}
/* The pair times 2^n. */
static inline adm_dekker_f64 adm_dekker_scaled_f64(adm_dekker_f64 x, int n) {
    adm_dekker_f64 v = {scalbn(x.high, n), scalbn(x.low, n)};
    return v;
}
static inline adm_dekker_f64 adm_dekker_ln_2_f64(void) {
    adm_dekker_f64 v = {0.6931471805599453, 2.3190468138462996e-17};
    return v;
}
static inline adm_dekker_f64 adm_dekker_pi_f64(void) {
    adm_dekker_f64 v = {3.141592653589793, 1.2246467991473532e-16};
    return v;
}
static inline adm_dekker_f64 adm_dekker_tau_f64(void) {
    adm_dekker_f64 v = {6.283185307179586, 2.4492935982947064e-16};
    return v;
}
/* e^x, to be multiplied by 2^n. */
static inline adm_dekker_f64 adm_dekker_exp_f64(adm_dekker_f64 x, int *n) {
    const double whole = round(x.high * 1.4426950408889634);
    const adm_dekker_f64 r = adm_dekker_plus_f64(x, adm_dekker_times_f64(adm_dekker_ln_2_f64(), adm_dekker_from_f64(-whole)));
    adm_dekker_f64 sum = adm_dekker_from_f64(1.0);
    /* Taylor's series, from its end. */
    for (int k = 22; k >= 1; k--) sum = adm_dekker_plus_f64(adm_dekker_from_f64(1.0), adm_dekker_over_f64(adm_dekker_times_f64(r, sum), adm_dekker_from_f64((double)k)));
    *n = fabs(whole) < 1e6 ? (int)whole : 0;
    return sum;
}
/* ln x of a positive x: the logarithm of f64, and one step of Newton's method from there. */
static inline adm_dekker_f64 adm_dekker_ln_f64(adm_dekker_f64 x) {
    int n = 0, k = 0;
    const double high = frexp(x.high, &n);
    const adm_dekker_f64 m = {high, scalbn(x.low, -n)};
    const double guess = log(high);
    const adm_dekker_f64 back = adm_dekker_exp_f64(adm_dekker_from_f64(-guess), &k);
    const adm_dekker_f64 off = adm_dekker_minus_f64(adm_dekker_times_f64(m, adm_dekker_scaled_f64(back, k)), adm_dekker_from_f64(1.0));
    const adm_dekker_f64 fine = adm_dekker_minus_f64(adm_dekker_plus_f64(adm_dekker_from_f64(guess), off), adm_dekker_from_f64(0.5 * off.high * off.high));
    return adm_dekker_plus_f64(adm_dekker_times_f64(adm_dekker_ln_2_f64(), adm_dekker_from_f64((double)n)), fine);
}
/* The series of the sine, of which the first term is u, or of the cosine, 1: each term is the last times -u^2 / (n + 1)(n + 2). */
static inline adm_dekker_f64 adm_dekker_circle_f64(adm_dekker_f64 first, double n, adm_dekker_f64 square) {
    adm_dekker_f64 term = first, sum = first;
    for (int k = 0; k < 40 && fabs(term.high) > 1e-34 * fmax(fabs(sum.high), 1e-3); k++) {
        term = adm_dekker_over_f64(adm_dekker_times_f64(term, square), adm_dekker_from_f64(-(n + 1.0) * (n + 2.0)));
        sum = adm_dekker_plus_f64(sum, term);
        n += 2.0;
    }
    return sum;
}
/* sin and cos of pi x, for x up to one half. */
static inline adm_dekker_f64 adm_dekker_sin_pi_f64(double x) {
    const adm_dekker_f64 u = adm_dekker_times_f64(adm_dekker_pi_f64(), adm_dekker_from_f64(x));
    return adm_dekker_circle_f64(u, 1.0, adm_dekker_times_f64(u, u));
}
static inline adm_dekker_f64 adm_dekker_cos_pi_f64(double x) {
    const adm_dekker_f64 u = adm_dekker_times_f64(adm_dekker_pi_f64(), adm_dekker_from_f64(x));
    return adm_dekker_circle_f64(adm_dekker_from_f64(1.0), 0.0, adm_dekker_times_f64(u, u));
}
