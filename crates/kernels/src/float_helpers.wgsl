// Scalar functions in f32 that WGSL lacks or leaves inaccurate, in the part of WGSL that also goes to C.
// C takes the functions of <math.h> where it has them. Polynomials are minimax fits to f32 unless a source is named.

fn adm_inf() -> f32 {
    // Not a constant expression: WGSL refuses those that are not finite.
    var bits: u32 = 0x7f800000u;
    return bitcast<f32>(bits);
}
fn adm_nan() -> f32 {
    var bits: u32 = 0x7fc00000u;
    return bitcast<f32>(bits);
}
fn adm_isnan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
fn adm_isinf(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
}
fn adm_isfinite(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) < 0x7f800000u;
}
fn adm_isposinf(x: f32) -> bool {
    return bitcast<u32>(x) == 0x7f800000u;
}
fn adm_isneginf(x: f32) -> bool {
    return bitcast<u32>(x) == 0xff800000u;
}
// Which sign a computed NaN has is the compiler's affair, and differs from kernel to kernel: it counts as none.
fn adm_signbit(x: f32) -> bool {
    return (bitcast<u32>(x) >> 31u) != 0u && !adm_isnan(x);
}
fn adm_copysign(x: f32, y: f32) -> f32 {
    return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(y) & 0x80000000u));
}
fn adm_sign(x: f32) -> f32 {
    return select(select(0.0, -1.0, x < 0.0), 1.0, x > 0.0);
}
// The upper half of the bits, so that a product of two is exact.
fn adm_upper(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
}
fn adm_pow2(n: i32) -> f32 {
    return bitcast<f32>(u32(n + 127) << 23u);
}
// x · 2^n in two steps, for n to twice the range of exponents.
fn adm_scale(x: f32, n: i32) -> f32 {
    let half: i32 = n >> 1u;
    return x * adm_pow2(half) * adm_pow2(n - half);
}
fn adm_max(x: f32, y: f32) -> f32 {
    return select(select(y, x, x > y), x + y, adm_isnan(x) || adm_isnan(y));
}
fn adm_min(x: f32, y: f32) -> f32 {
    return select(select(y, x, x < y), x + y, adm_isnan(x) || adm_isnan(y));
}
fn adm_fmax(x: f32, y: f32) -> f32 {
    return select(select(y, x, x > y), select(x, y, adm_isnan(x)), adm_isnan(x) || adm_isnan(y));
}
fn adm_fmin(x: f32, y: f32) -> f32 {
    return select(select(y, x, x < y), select(x, y, adm_isnan(x)), adm_isnan(x) || adm_isnan(y));
}
fn adm_deg2rad(x: f32) -> f32 {
    return x * 0.017453292;
}
fn adm_rad2deg(x: f32) -> f32 {
    return x * 57.29578;
}
fn adm_sqrt(x: f32) -> f32 {
    return sqrt(x);
}

// (e^r - 1 - r) / r² on [-ln 2 / 2, ln 2 / 2].
fn adm_exp_tail(r: f32) -> f32 {
    return (((0.0013903413 * r + 0.008363738) * r + 0.04166684) * r + 0.16666573) * r + 0.5;
}
fn adm_exp(x: f32) -> f32 {
    if (x > 89.0) { return adm_inf(); }
    if (x < -104.0) { return 0.0; }
    if (adm_isnan(x)) { return x; }
    let k: f32 = round(x * 1.442695);
    let r: f32 = (x - k * 0.693359375) + k * 2.1219444e-4;
    return adm_scale(1.0 + (r + r * r * adm_exp_tail(r)), i32(k));
}
fn adm_expm1(x: f32) -> f32 {
    if (x > 88.0) { return adm_exp(x); }
    if (x < -18.0) { return -1.0; }
    if (adm_isnan(x) || x == 0.0) { return x; }
    let k: f32 = round(x * 1.442695);
    let r: f32 = (x - k * 0.693359375) + k * 2.1219444e-4;
    let q: f32 = r + r * r * adm_exp_tail(r);
    let s: f32 = adm_pow2(i32(k));
    return s * q + (s - 1.0);
}
// x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); returns f, and k through adm_log_exponent.
fn adm_log_exponent(x: f32) -> i32 {
    return (bitcast<i32>(x) - 0x3f3504f3) >> 23u;
}
fn adm_log_fraction(x: f32) -> f32 {
    return bitcast<f32>(((bitcast<u32>(x) - 0x3f3504f3u) & 0x7fffffu) + 0x3f3504f3u) - 1.0;
}
// ln(1 + f) - f on [sqrt(1/2) - 1, sqrt(2) - 1], by 2 atanh(s) = 2s + s³R(s²), s = f / (2 + f).
fn adm_log_tail(f: f32) -> f32 {
    let s: f32 = f / (2.0 + f);
    let z: f32 = s * s;
    let r: f32 = ((0.23331808 * z + 0.28550762) * z + 0.40000123) * z + 0.6666667;
    let half: f32 = 0.5 * f * f;
    return s * (half + z * r) - half;
}
fn adm_log(x: f32) -> f32 {
    if (x < 0.0) { return adm_nan(); }
    if (x == 0.0) { return -adm_inf(); }
    if (!adm_isfinite(x)) { return x; }
    let small: bool = x < 1.1754944e-38;
    let v: f32 = select(x, x * 8388608.0, small);
    let f: f32 = adm_log_fraction(v);
    let k: f32 = f32(adm_log_exponent(v)) - select(0.0, 23.0, small);
    return k * 0.693359375 + (f + (adm_log_tail(f) - k * 2.1219444e-4));
}
fn adm_log1p(x: f32) -> f32 {
    if (x < -0.29 || x > 0.41) { return adm_log(1.0 + x); }
    return x + adm_log_tail(x);
}
fn adm_log2(x: f32) -> f32 {
    if (!(x > 0.0) || !adm_isfinite(x)) { return adm_log(x); }
    let small: bool = x < 1.1754944e-38;
    let v: f32 = select(x, x * 8388608.0, small);
    let f: f32 = adm_log_fraction(v);
    let t: f32 = adm_log_tail(f);
    return (f32(adm_log_exponent(v)) - select(0.0, 23.0, small)) + (f + (0.442695 * f + 1.442695 * t));
}
fn adm_log10(x: f32) -> f32 {
    if (!(x > 0.0) || !adm_isfinite(x)) { return adm_log(x); }
    let small: bool = x < 1.1754944e-38;
    let v: f32 = select(x, x * 8388608.0, small);
    let f: f32 = adm_log_fraction(v);
    let k: f32 = f32(adm_log_exponent(v)) - select(0.0, 23.0, small);
    return k * 0.30102539 + (0.4342945 * (f + adm_log_tail(f)) + k * 4.6050393e-6);
}

// The upper half of a product of words.
fn adm_mul_high(a: u32, b: u32) -> u32 {
    let al: u32 = a & 0xffffu;
    let ah: u32 = a >> 16u;
    let bl: u32 = b & 0xffffu;
    let bh: u32 = b >> 16u;
    let mid: u32 = ah * bl + ((al * bl) >> 16u);
    let low: u32 = al * bh + (mid & 0xffffu);
    return ah * bh + (mid >> 16u) + (low >> 16u);
}
// Words of 2/π behind its point, after a word of zeros.
fn adm_two_over_pi(k: u32) -> u32 {
    if (k == 1u) { return 0xa2f9836eu; }
    if (k == 2u) { return 0x4e441529u; }
    if (k == 3u) { return 0xfc2757d1u; }
    if (k == 4u) { return 0xf534ddc0u; }
    if (k == 5u) { return 0xdb629599u; }
    if (k == 6u) { return 0x3c439041u; }
    if (k == 7u) { return 0xfe5163abu; }
    return 0u;
}
// 32 bits of 2/π from bit `at` on.
fn adm_two_over_pi_from(at: u32) -> u32 {
    let high: u32 = adm_two_over_pi(at >> 5u) << (at & 31u);
    if ((at & 31u) == 0u) { return high; }
    return high | (adm_two_over_pi((at >> 5u) + 1u) >> (32u - (at & 31u)));
}
// |x| · 2/π modulo 4 for x beyond 8000, by only those bits of 2/π that matter (Payne and Hanek, 1983): a word of the
// fraction, the higher one first, and with `which` 0 the whole quarters.
fn adm_far_quarter(x: f32, which: u32) -> u32 {
    let b: u32 = bitcast<u32>(x) & 0x7fffffffu;
    let m: u32 = (b & 0x7fffffu) | 0x800000u;
    // Bits before this one make whole turns.
    let at: u32 = (b >> 23u) - 120u;
    let w0: u32 = adm_two_over_pi_from(at);
    let w1: u32 = adm_two_over_pi_from(at + 32u);
    let w2: u32 = adm_two_over_pi_from(at + 64u);
    let carry: u32 = adm_mul_high(m, w2);
    let middle: u32 = m * w1 + carry;
    let high: u32 = m * w0 + adm_mul_high(m, w1) + select(0u, 1u, middle < carry);
    if (which == 0u) { return high >> 30u; }
    if (which == 1u) { return (high << 2u) | (middle >> 30u); }
    return (middle << 2u) | ((m * w2) >> 30u);
}
// What is left of |x| beyond the nearest multiple of π/2.
fn adm_far_rest(x: f32) -> f32 {
    var high: u32 = adm_far_quarter(x, 1u);
    var low: u32 = adm_far_quarter(x, 2u);
    let above: bool = high >= 0x80000000u;
    if (above) {
        low = 0u - low;
        high = 0u - high - select(0u, 1u, low != 0u);
    }
    var scale: f32 = 3.6572952e-10;
    for (var k: i32 = 0; k < 40; k = k + 1) {
        if (high < 0x80000000u) {
            high = (high << 1u) | (low >> 31u);
            low = low << 1u;
            scale = scale * 0.5;
        }
    }
    let r: f32 = f32(high) * scale;
    return select(r, -r, above);
}
// The number of the nearest multiple of π/2, modulo 4.
fn adm_far_number(x: f32) -> i32 {
    let n: u32 = adm_far_quarter(x, 0u) + (adm_far_quarter(x, 1u) >> 31u);
    return i32(n & 3u);
}

// sin and cos of r on [-π/4, π/4].
fn adm_sin_part(r: f32) -> f32 {
    let z: f32 = r * r;
    return r + r * z * ((-0.00019582325 * z + 0.008332721) * z - 0.16666664);
}
fn adm_cos_part(r: f32) -> f32 {
    let z: f32 = r * r;
    return 1.0 - (0.5 * z - z * z * ((2.4542547e-05 * z - 0.0013888277) * z + 0.041666664));
}
// x less k · π/2, π/2 in three parts (Cody and Waite; the parts of Cephes' sinf, doubled); good to |x| of some thousands.
fn adm_quarter(x: f32, k: f32) -> f32 {
    return ((x - k * 1.5703125) - k * 4.837513e-4) - k * 7.54979e-8;
}
fn adm_sin(x: f32) -> f32 {
    if (!adm_isfinite(x)) { return adm_nan(); }
    if (x == 0.0) { return x; }
    var r: f32 = 0.0;
    var n: i32 = 0;
    if (abs(x) > 8000.0) {
        r = adm_far_rest(x);
        // Half a turn more is the sign of a negative x.
        n = (adm_far_number(x) + select(0, 2, x < 0.0)) & 3;
    } else {
        let k: f32 = round(x * 0.63661975);
        r = adm_quarter(x, k);
        n = i32(k) & 3;
    }
    let v: f32 = select(adm_sin_part(r), adm_cos_part(r), (n & 1) == 1);
    return select(v, -v, n >= 2);
}
fn adm_cos(x: f32) -> f32 {
    if (!adm_isfinite(x)) { return adm_nan(); }
    var r: f32 = 0.0;
    var n: i32 = 0;
    if (abs(x) > 8000.0) {
        r = adm_far_rest(x);
        n = adm_far_number(x);
    } else {
        let k: f32 = round(x * 0.63661975);
        r = adm_quarter(x, k);
        n = i32(k) & 3;
    }
    let v: f32 = select(adm_cos_part(r), adm_sin_part(r), (n & 1) == 1);
    return select(v, -v, n == 1 || n == 2);
}
fn adm_tan(x: f32) -> f32 {
    if (!adm_isfinite(x)) { return adm_nan(); }
    var r: f32 = 0.0;
    var n: i32 = 0;
    if (abs(x) > 8000.0) {
        r = adm_far_rest(x) * select(1.0, -1.0, x < 0.0);
        n = adm_far_number(x);
    } else {
        let k: f32 = round(x * 0.63661975);
        r = adm_quarter(x, k);
        n = i32(k);
    }
    let s: f32 = adm_sin_part(r);
    let c: f32 = adm_cos_part(r);
    return select(s / c, -c / s, (n & 1) == 1);
}
// asin on [-1/2, 1/2].
fn adm_asin_part(x: f32) -> f32 {
    let z: f32 = x * x;
    return x + x * z * ((((0.038193557 * z + 0.026501201) * z + 0.045009553) * z + 0.07498815) * z + 0.16666673);
}
fn adm_asin(x: f32) -> f32 {
    let a: f32 = abs(x);
    if (a > 1.0) { return adm_nan(); }
    if (a <= 0.5 || adm_isnan(x)) { return adm_asin_part(x); }
    return adm_copysign(1.5707964 - (2.0 * adm_asin_part(adm_sqrt(0.5 * (1.0 - a))) + 4.371139e-8), x);
}
fn adm_acos(x: f32) -> f32 {
    let a: f32 = abs(x);
    if (a > 1.0) { return adm_nan(); }
    if (a <= 0.5 || adm_isnan(x)) { return 1.5707964 - (adm_asin_part(x) + 4.371139e-8); }
    let v: f32 = 2.0 * adm_asin_part(adm_sqrt(0.5 * (1.0 - a)));
    return select(v, 3.1415927 - (v + 8.742278e-8), x < 0.0);
}
// atan on [-tan(π/8), tan(π/8)].
fn adm_atan_part(x: f32) -> f32 {
    let z: f32 = x * x;
    return x + x * z * (((0.08520657 * z - 0.14024368) * z + 0.19991264) * z - 0.33333287);
}
fn adm_atan(x: f32) -> f32 {
    let a: f32 = abs(x);
    if (a > 2.4142136) { return adm_copysign(1.5707964 - (adm_atan_part(1.0 / a) + 4.371139e-8), x); }
    if (a > 0.41421357) { return adm_copysign(0.7853982 + (adm_atan_part((a - 1.0) / (a + 1.0)) - 2.1855695e-8), x); }
    return adm_atan_part(x);
}
fn adm_atan2(y: f32, x: f32) -> f32 {
    if (adm_isnan(x) || adm_isnan(y)) { return adm_nan(); }
    let ay: f32 = abs(y);
    let ax: f32 = abs(x);
    if (ay == 0.0) { return adm_copysign(select(0.0, 3.1415927, adm_signbit(x)), y); }
    var t: f32 = 0.7853982;
    if (!(adm_isinf(x) && adm_isinf(y))) {
        if (ay > ax) { t = 1.5707964 - (adm_atan(ax / ay) + 4.371139e-8); } else { t = adm_atan(ay / ax); }
    }
    return adm_copysign(select(t, 3.1415927 - (t + 8.742278e-8), adm_signbit(x)), y);
}
fn adm_hypot(x: f32, y: f32) -> f32 {
    if (adm_isinf(x) || adm_isinf(y)) { return adm_inf(); }
    let big: f32 = adm_max(abs(x), abs(y));
    if (big == 0.0 || adm_isnan(big)) { return big; }
    // The scale of the largest numbers is not below the normal range.
    let exponent: i32 = i32((bitcast<u32>(big) >> 23u) & 0xffu);
    let s: f32 = adm_pow2(127 - select(exponent, 253, exponent > 253));
    let a: f32 = x * s;
    let b: f32 = y * s;
    return adm_sqrt(a * a + b * b) / s;
}

fn adm_sinh(x: f32) -> f32 {
    let a: f32 = abs(x);
    if (a > 88.0) {
        let h: f32 = adm_exp(0.5 * a);
        return adm_copysign(0.5 * h * h, x);
    }
    let e: f32 = adm_expm1(a);
    return adm_copysign(0.5 * (e + e / (e + 1.0)), x);
}
fn adm_cosh(x: f32) -> f32 {
    let a: f32 = abs(x);
    let h: f32 = adm_exp(0.5 * a);
    if (a > 88.0) { return 0.5 * h * h; }
    let e: f32 = adm_exp(a);
    return 0.5 * e + 0.5 / e;
}
fn adm_tanh(x: f32) -> f32 {
    let a: f32 = abs(x);
    if (a > 10.0) { return adm_copysign(1.0, x); }
    let e: f32 = adm_expm1(2.0 * a);
    return adm_copysign(e / (e + 2.0), x);
}
fn adm_asinh(x: f32) -> f32 {
    let a: f32 = abs(x);
    if (a > 1e9) { return adm_copysign(adm_log(a) + 0.6931472, x); }
    return adm_copysign(adm_log1p(a + a * a / (1.0 + adm_sqrt(a * a + 1.0))), x);
}
fn adm_acosh(x: f32) -> f32 {
    if (x < 1.0) { return adm_nan(); }
    if (x > 1e9) { return adm_log(x) + 0.6931472; }
    let t: f32 = x - 1.0;
    return adm_log1p(t + adm_sqrt(2.0 * t + t * t));
}
fn adm_atanh(x: f32) -> f32 {
    let a: f32 = abs(x);
    if (a > 1.0) { return adm_nan(); }
    if (a == 1.0) { return adm_copysign(adm_inf(), x); }
    return adm_copysign(0.5 * adm_log1p(2.0 * a / (1.0 - a)), x);
}

// log2 of a positive finite x in two parts, times y, as a power of two: the error of log2 is magnified by y · log2(x).
fn adm_pow_positive(x: f32, y: f32) -> f32 {
    let small: bool = x < 1.1754944e-38;
    let v: f32 = select(x, x * 8388608.0, small);
    let f: f32 = adm_log_fraction(v);
    let k: f32 = f32(adm_log_exponent(v)) - select(0.0, 23.0, small);
    // s = f / (2 + f) in two parts.
    let t: f32 = 2.0 + f;
    let s: f32 = f / t;
    let sh: f32 = adm_upper(s);
    let th: f32 = adm_upper(t);
    let tl: f32 = f - (th - 2.0);
    let sl: f32 = ((f - sh * th) - sh * tl) / t;
    let z: f32 = s * s;
    let tail: f32 = s * z * (((0.23331808 * z + 0.28550762) * z + 0.40000123) * z + 0.6666667);
    // 2/ln 2 = 2.884765625 + 6.2445678e-4, times s, and the tail over ln 2.
    let ph: f32 = 2.884765625 * sh;
    let pl: f32 = 6.2445678e-4 * sh + (2.88539 * sl + 1.442695 * tail);
    let lh: f32 = adm_upper(k + (ph + pl));
    let ll: f32 = pl - ((lh - k) - ph);
    let yh: f32 = adm_upper(y);
    let zh: f32 = yh * lh;
    let zl: f32 = (y - yh) * lh + y * ll;
    if (!(zh + zl < 128.5)) { return adm_inf(); }
    if (zh + zl < -151.0) { return 0.0; }
    let n: f32 = round(zh);
    let r: f32 = ((zh - n) + zl) * 0.6931472;
    return adm_scale(1.0 + (r + r * r * adm_exp_tail(r)), i32(n));
}
fn adm_pow(x: f32, y: f32) -> f32 {
    if (y == 0.0 || x == 1.0) { return 1.0; }
    if (adm_isnan(x) || adm_isnan(y)) { return adm_nan(); }
    let a: f32 = abs(x);
    if (adm_isinf(y)) {
        if (a == 1.0) { return 1.0; }
        return select(0.0, adm_inf(), (a > 1.0) == (y > 0.0));
    }
    let whole: bool = floor(y) == y;
    let odd: bool = whole && floor(0.5 * y) * 2.0 != y;
    var v: f32 = 0.0;
    if (a == 0.0 || adm_isinf(a)) {
        v = select(0.0, adm_inf(), (a == 0.0) == (y < 0.0));
    } else {
        if (x < 0.0 && !whole) { return adm_nan(); }
        v = adm_pow_positive(a, y);
    }
    return select(v, -v, odd && adm_signbit(x));
}
// Exact: y doubled up to x is subtracted on its way back down.
fn adm_fmod(x: f32, y: f32) -> f32 {
    let b: f32 = abs(y);
    if (!adm_isfinite(x) || adm_isnan(y) || b == 0.0) { return adm_nan(); }
    var a: f32 = abs(x);
    if (adm_isinf(y)) { return x; }
    var t: f32 = b;
    while (t <= 0.5 * a) { t = t + t; }
    while (t >= b) {
        if (a >= t) { a = a - t; }
        t = 0.5 * t;
    }
    return adm_copysign(a, x);
}
fn adm_remainder(x: f32, y: f32) -> f32 {
    let r: f32 = adm_fmod(x, y);
    return select(r, r + y, r != 0.0 && (r < 0.0) != (y < 0.0));
}
fn adm_floor_divide(x: f32, y: f32) -> f32 {
    if (y == 0.0) { return x / y; }
    let rem: f32 = adm_fmod(x, y);
    let div: f32 = (x - rem) / y - select(0.0, 1.0, rem != 0.0 && (y < 0.0) != (rem < 0.0));
    if (div == 0.0) { return adm_copysign(0.0, x / y); }
    let f: f32 = floor(div);
    return select(f, f + 1.0, div - f > 0.5);
}
fn adm_ldexp(x: f32, y: f32) -> f32 {
    if (y == trunc(y) && abs(y) < 1e6) {
        // Beyond 300 every number is infinite, or zero.
        let n: i32 = i32(select(select(y, 300.0, y > 300.0), -300.0, y < -300.0));
        let part: i32 = n / 3;
        return x * adm_pow2(part) * adm_pow2(part) * adm_pow2(n - 2 * part);
    }
    return x * exp2(y);
}

fn adm_sigmoid(x: f32) -> f32 {
    let e: f32 = adm_exp(-abs(x));
    return select(1.0, e, x < 0.0) / (1.0 + e);
}
// x · e^x far below zero, where e^x alone runs out of bits.
fn adm_times_exp(x: f32) -> f32 {
    return x * adm_exp(x + 23.0) * 1.026188e-10;
}
fn adm_silu(x: f32) -> f32 {
    if (x < -80.0 && x > -130.0) { return adm_times_exp(x); }
    return x * adm_sigmoid(x);
}
fn adm_softplus(x: f32) -> f32 {
    return adm_max(x, 0.0) + adm_log1p(adm_exp(-abs(x)));
}
fn adm_gelu_tanh(x: f32) -> f32 {
    return x * adm_sigmoid(x * (1.5957692 + 0.071354814 * x * x));
}
fn adm_mish(x: f32) -> f32 {
    if (x > 20.0) { return x; }
    if (x < -80.0 && x > -130.0) { return adm_times_exp(x); }
    let e: f32 = adm_exp(x);
    let n: f32 = e * (e + 2.0);
    return x * (n / (n + 2.0));
}
// (x cosh x - sinh x) / cosh x, the numerator by its series, near zero.
fn adm_tanhshrink(x: f32) -> f32 {
    if (!(abs(x) < 1.0)) { return x - adm_tanh(x); }
    let z: f32 = x * x;
    let series: f32 = ((((2.5052108e-7 * z + 2.204586e-5) * z + 0.0011904762) * z + 0.033333335) * z + 0.33333334);
    return x * z * series / adm_cosh(x);
}
fn adm_logit(x: f32) -> f32 {
    if (x > 0.3 && x < 0.7) { return adm_log1p((2.0 * x - 1.0) / (1.0 - x)); }
    return adm_log(x) - adm_log1p(-x);
}
fn adm_entr(x: f32) -> f32 {
    if (x == 0.0) { return 0.0; }
    if (x < 0.0) { return -adm_inf(); }
    return -x * adm_log(x);
}
fn adm_logaddexp(x: f32, y: f32) -> f32 {
    if (x == y && adm_isinf(x)) { return x; }
    return adm_max(x, y) + adm_log1p(adm_exp(-abs(x - y)));
}
fn adm_logaddexp2(x: f32, y: f32) -> f32 {
    if (x == y && adm_isinf(x)) { return x; }
    return adm_max(x, y) + 1.442695 * adm_log1p(exp2(-abs(x - y)));
}
fn adm_xlogy(x: f32, y: f32) -> f32 {
    if (adm_isnan(y)) { return y; }
    if (x == 0.0) { return 0.0; }
    return x * adm_log(y);
}
fn adm_xlog1py(x: f32, y: f32) -> f32 {
    if (adm_isnan(y)) { return y; }
    if (x == 0.0) { return 0.0; }
    return x * adm_log1p(y);
}

// sin(πx): the argument is reduced, exactly, before π is multiplied in.
fn adm_sin_pi(x: f32) -> f32 {
    if (!adm_isfinite(x)) { return adm_nan(); }
    let r: f32 = x - 2.0 * round(0.5 * x);
    let folded: f32 = select(select(r, 1.0 - r, r > 0.5), -1.0 - r, r < -0.5);
    return adm_sin(3.1415927 * folded);
}
fn adm_cos_pi(x: f32) -> f32 {
    if (!adm_isfinite(x)) { return adm_nan(); }
    return adm_sin_pi(0.5 - abs(x - 2.0 * round(0.5 * x)));
}
fn adm_sinc(x: f32) -> f32 {
    if (x == 0.0) { return 1.0; }
    // πx overflows.
    if (abs(x) > 1.0831523e38) { return adm_nan(); }
    return adm_sin_pi(x) / (3.1415927 * x);
}
fn adm_sinc_derivative(x: f32) -> f32 {
    if (abs(x) > 1e30) { return adm_cos_pi(x) / x; }
    if (!(abs(x) < 0.5)) { return (adm_cos_pi(x) - adm_sinc(x)) / x; }
    // π Σ (-1)^k 2k u^(2k-1) / (2k+1)!, u = πx
    let u: f32 = 3.1415927 * x;
    let z: f32 = u * u;
    return 3.1415927 * u * ((((2.5052108e-7 * z - 2.204586e-5) * z + 0.0011904762) * z - 0.033333335) * -z - 0.33333334);
}

// (1 + 2x) erfcx(x) for x ≥ 0, by t = (x - 2) / (x + 2).
fn adm_erfcx_positive(x: f32) -> f32 {
    // 1 / (x √π) · (1 - 1 / 2x²): the next term is below 1e-9.
    if (x > 190.0) { return 0.5641896 / x * (1.0 - 0.5 / (x * x)); }
    let t: f32 = (x - 2.0) / (x + 2.0);
    var p: f32 = 0.00015113445;
    p = p * t - 0.0001868576;
    p = p * t - 0.0013737064;
    p = p * t + 0.0010493384;
    p = p * t + 0.008671821;
    p = p * t - 0.007946635;
    p = p * t - 0.05420647;
    p = p * t + 0.16403674;
    p = p * t - 0.16603169;
    p = p * t - 0.09276313;
    p = p * t + 1.2769784;
    return p / (1.0 + 2.0 * x);
}
// exp(scale · x²) for scale 1, -1, -1/2: x² in an exact and a small part, whose rounding does not matter.
fn adm_exp_square(x: f32, scale: f32) -> f32 {
    if (abs(x) > 30.0) { return adm_exp(scale * x * x); }
    let h: f32 = adm_upper(x);
    return adm_exp(scale * h * h) * adm_exp(scale * (x - h) * (x + h));
}
fn adm_erf_part(x: f32) -> f32 {
    let z: f32 = x * x;
    return x * ((((((7.8554556e-05 * z - 0.000801067) * z + 0.005188381) * z - 0.026853839) * z + 0.112835854) * z - 0.37612626) * z + 1.1283791);
}
fn adm_erf(x: f32) -> f32 {
    let a: f32 = abs(x);
    if (a > 4.0) { return adm_copysign(1.0, x); }
    if (a > 1.0) { return adm_copysign(1.0 - adm_exp_square(a, -1.0) * adm_erfcx_positive(a), x); }
    return adm_erf_part(x);
}
fn adm_erfc(x: f32) -> f32 {
    if (adm_isnan(x)) { return x; }
    if (x > 11.0) { return 0.0; }
    if (x < -4.0) { return 2.0; }
    if (abs(x) < 0.5) { return 1.0 - adm_erf_part(x); }
    let tail: f32 = adm_exp_square(x, -1.0) * adm_erfcx_positive(abs(x));
    return select(tail, 2.0 - tail, x < 0.0);
}
fn adm_erfcx(x: f32) -> f32 {
    if (x < 0.0) { return 2.0 * adm_exp_square(x, 1.0) - adm_erfcx_positive(-x); }
    return adm_erfcx_positive(x);
}
fn adm_ndtr(x: f32) -> f32 {
    if (adm_isnan(x)) { return x; }
    if (x > 6.0) { return 1.0; }
    if (x < -16.0) { return 0.0; }
    if (abs(x) < 1.0) { return 0.5 + 0.5 * adm_erf_part(0.70710677 * x); }
    let tail: f32 = 0.5 * adm_exp_square(x, -0.5) * adm_erfcx_positive(0.70710677 * abs(x));
    return select(1.0 - tail, tail, x < 0.0);
}
fn adm_gelu(x: f32) -> f32 {
    if (adm_isinf(x)) { return adm_nan(); }
    // x (1 + erf) is halved last.
    if (x > 1.7014117e38) { return adm_inf(); }
    return x * adm_ndtr(x);
}
// Giles, "Approximating the erfinv function", GPU Computing Gems, 2011, single precision.
fn adm_erfinv(x: f32) -> f32 {
    let a: f32 = abs(x);
    if (a > 1.0) { return adm_nan(); }
    if (a == 1.0) { return adm_copysign(adm_inf(), x); }
    var w: f32 = -adm_log((1.0 - x) * (1.0 + x));
    var p: f32 = 2.81022636e-08;
    if (w < 5.0) {
        w = w - 2.5;
        p = p * w + 3.43273939e-07;
        p = p * w - 3.5233877e-06;
        p = p * w - 4.39150654e-06;
        p = p * w + 0.00021858087;
        p = p * w - 0.00125372503;
        p = p * w - 0.00417768164;
        p = p * w + 0.246640727;
        p = p * w + 1.50140941;
    } else {
        w = adm_sqrt(w) - 3.0;
        p = -0.000200214257;
        p = p * w + 0.000100950558;
        p = p * w + 0.00134934322;
        p = p * w - 0.00367342844;
        p = p * w + 0.00573950773;
        p = p * w - 0.0076224613;
        p = p * w + 0.00943887047;
        p = p * w + 1.00167406;
        p = p * w + 2.83297682;
    }
    return p * x;
}
// Near the middle by erfinv; in the tails Newton's method on ln ndtr, from Abramowitz and Stegun's 26.2.23.
fn adm_ndtri(p: f32) -> f32 {
    if (!(p >= 0.0 && p <= 1.0)) { return adm_nan(); }
    if (p > 0.1 && p < 0.9) { return 1.4142135 * adm_erfinv(2.0 * p - 1.0); }
    let q: f32 = select(p, 1.0 - p, p > 0.5);
    if (q == 0.0) { return select(-adm_inf(), adm_inf(), p > 0.5); }
    let l: f32 = adm_log(q);
    let t: f32 = adm_sqrt(-2.0 * l);
    var y: f32 = t - ((0.010328 * t + 0.802853) * t + 2.515517) / (((0.001308 * t + 0.189269) * t + 1.432788) * t + 1.0);
    for (var i: i32 = 0; i < 2; i = i + 1) {
        let e: f32 = adm_erfcx_positive(0.70710677 * y);
        y = y + (adm_log(0.5 * e) - 0.5 * y * y - l) * e * 1.2533141;
    }
    return select(-y, y, p > 0.5);
}

// ln Γ(1 + d) / d and ln Γ(2 + d) / d on [-1/2, 1/2].
fn adm_lgamma_one(d: f32) -> f32 {
    var p: f32 = 0.15932204;
    p = p * d - 0.18319404;
    p = p * d + 0.07936775;
    p = p * d - 0.08165304;
    p = p * d + 0.12757431;
    p = p * d - 0.1481481;
    p = p * d + 0.16952054;
    p = p * d - 0.20713724;
    p = p * d + 0.27057698;
    p = p * d - 0.40069103;
    p = p * d + 0.82246715;
    return p * d - 0.5772157;
}
fn adm_lgamma_two(d: f32) -> f32 {
    var p: f32 = -0.00026989452;
    p = p * d + 0.0005698284;
    p = p * d - 0.0011778104;
    p = p * d + 0.0028790517;
    p = p * d - 0.007387434;
    p = p * d + 0.020581603;
    p = p * d - 0.06735222;
    p = p * d + 0.32246703;
    return p * d + 0.42278433;
}
fn adm_lgamma_positive(x: f32) -> f32 {
    if (x < 0.5) { return x * adm_lgamma_one(x) - adm_log(x); }
    if (x < 1.5) { return (x - 1.0) * adm_lgamma_one(x - 1.0); }
    if (x < 2.5) { return (x - 2.0) * adm_lgamma_two(x - 2.0); }
    if (x < 8.0) {
        var v: f32 = x;
        var product: f32 = 1.0;
        while (v >= 2.5) {
            v = v - 1.0;
            product = product * v;
        }
        return adm_log(product) + (v - 2.0) * adm_lgamma_two(v - 2.0);
    }
    let r: f32 = 1.0 / x;
    let z: f32 = r * r;
    return (x - 0.5) * (adm_log(x) - 1.0) + (0.41893852 + r * ((0.0007936508 * z - 0.0027777778) * z + 0.083333336));
}
fn adm_lgamma(x: f32) -> f32 {
    if (adm_isnan(x)) { return x; }
    if (adm_isinf(x) || x == 0.0) { return adm_inf(); }
    if (abs(x) < 1e-10) { return -adm_log(abs(x)); }
    if (x > 0.0) { return adm_lgamma_positive(x); }
    if (floor(x) == x) { return adm_inf(); }
    return adm_log(3.1415927 / abs(x * adm_sin_pi(x))) - adm_lgamma_positive(-x);
}
fn adm_digamma_positive(x: f32) -> f32 {
    var v: f32 = x;
    var steps: f32 = 0.0;
    if (x > 0.2 && x < 0.75) {
        steps = 1.0 / x;
        v = x + 1.0;
    }
    if (v > 1.2 && v < 1.75) {
        // Around the root 1.4616321 + 1.243815e-8.
        let d: f32 = (v - 1.4616321) - 1.243815e-8;
        var p: f32 = 0.022492252;
        p = p * d - 0.03586676;
        p = p * d + 0.048961204;
        p = p * d - 0.07204548;
        p = p * d + 0.1078155;
        p = p * d - 0.16394596;
        p = p * d + 0.2584999;
        p = p * d - 0.44276315;
        return (p * d + 0.9676722) * d - steps;
    }
    while (v < 6.0) {
        steps = steps + 1.0 / v;
        v = v + 1.0;
    }
    let z: f32 = 1.0 / (v * v);
    return (adm_log(v) - steps) - (0.5 / v + z * (((-0.004166667 * z + 0.003968254) * z - 0.008333334) * z + 0.083333336));
}
fn adm_digamma(x: f32) -> f32 {
    if (x == 0.0) { return adm_copysign(adm_inf(), -x); }
    if (x > 0.0 || adm_isnan(x)) { return adm_digamma_positive(x); }
    if (floor(x) == x) { return adm_nan(); }
    return adm_digamma_positive(1.0 - x) - 3.1415927 * adm_cos_pi(x) / adm_sin_pi(x);
}
fn adm_trigamma_positive(x: f32) -> f32 {
    var v: f32 = x;
    var steps: f32 = 0.0;
    while (v < 6.0) {
        steps = steps + 1.0 / (v * v);
        v = v + 1.0;
    }
    let z: f32 = 1.0 / (v * v);
    return steps + (1.0 / v + (0.5 * z + z / v * (((-0.033333335 * z + 0.023809524) * z - 0.033333335) * z + 0.16666667)));
}
fn adm_trigamma(x: f32) -> f32 {
    if (x > 0.0 || adm_isnan(x)) { return adm_trigamma_positive(x); }
    if (floor(x) == x) { return adm_inf(); }
    let c: f32 = 3.1415927 / adm_sin_pi(x);
    return c * c - adm_trigamma_positive(1.0 - x);
}
// Hurwitz' zeta for q > 0, s > 1: direct terms, then Euler and Maclaurin's formula.
fn adm_zeta_positive(s: f32, q: f32) -> f32 {
    var v: f32 = q;
    var sum: f32 = 0.0;
    while (v < 6.0 + s) {
        let term: f32 = adm_pow(v, -s);
        sum = sum + term;
        if (term <= sum * 1e-9) { return sum; }
        v = v + 1.0;
    }
    if (adm_isinf(v)) { return select(sum, adm_nan(), adm_isinf(s)); }
    if (v > 1e15) { return sum + adm_pow(v, 1.0 - s) / (s - 1.0); }
    let edge: f32 = adm_pow(v, -s);
    let z: f32 = 1.0 / (v * v);
    var factor: f32 = s / v;
    var series: f32 = factor * 0.083333336;
    factor = factor * (s + 1.0) * (s + 2.0) * z;
    series = series - factor * 0.0013888889;
    factor = factor * (s + 3.0) * (s + 4.0) * z;
    series = series + factor * 3.3068784e-5;
    factor = factor * (s + 5.0) * (s + 6.0) * z;
    series = series - factor * 8.267196e-7;
    factor = factor * (s + 7.0) * (s + 8.0) * z;
    series = series + factor * 2.0876757e-8;
    return sum + edge * (v / (s - 1.0) + 0.5 + series);
}
fn adm_zeta(s: f32, q: f32) -> f32 {
    if (s == 1.0) { return adm_inf(); }
    if (adm_isnan(q) || !(s > 1.0)) { return adm_nan(); }
    if (q > 0.0) { return adm_zeta_positive(s, q); }
    if (floor(q) == q) { return adm_inf(); }
    // A hair below zero a whole step is added, and the series begins at its pole.
    if (adm_isinf(s)) { return select(adm_nan(), -adm_inf(), q - floor(q) == 1.0); }
    if (!(floor(s) == s)) { return adm_nan(); }
    let f: f32 = q - floor(q);
    let below: f32 = adm_zeta_positive(s, 1.0 - f) - adm_zeta_positive(s, 1.0 - q);
    return adm_zeta_positive(s, f) + select(-below, below, floor(0.5 * s) * 2.0 == s);
}
fn adm_polygamma(x: f32, n: f32) -> f32 {
    if (!(n >= 0.0) || adm_isinf(n) || !(floor(n) == n)) { return adm_nan(); }
    if (n == 0.0) { return adm_digamma(x); }
    if (n == 1.0) { return adm_trigamma(x); }
    var factorial: f32 = 1.0;
    for (var k: f32 = 2.0; k <= n && k < 40.0; k = k + 1.0) { factorial = factorial * k; }
    let zeta: f32 = adm_zeta(n + 1.0, x);
    var size: f32 = factorial * zeta;
    // The first term of a series that is below the range, by logarithms; of a negative x the terms cancel.
    if (zeta == 0.0 && n < 170.0) { size = select(0.0, adm_exp(adm_lgamma(n + 1.0) - (n + 1.0) * adm_log(x)), x > 0.0); }
    return select(size, -size, floor(0.5 * n) * 2.0 == n);
}

// Modified Bessel functions: the power series to 9, the asymptotic series above (DLMF 10.25.2, 10.40.1).
fn adm_bessel_i_series(order: f32, x: f32) -> f32 {
    let q: f32 = 0.25 * x * x;
    var term: f32 = 1.0;
    var sum: f32 = 1.0;
    for (var k: f32 = 1.0; k < 30.0; k = k + 1.0) {
        term = term * q / (k * (k + order));
        sum = sum + term;
    }
    return sum;
}
fn adm_bessel_i_scaled(order: f32, x: f32) -> f32 {
    let r: f32 = 0.125 / x;
    var term: f32 = 1.0;
    var sum: f32 = 1.0;
    for (var k: f32 = 1.0; k < 13.0; k = k + 1.0) {
        let odd: f32 = 2.0 * k - 1.0;
        term = term * (odd * odd - 4.0 * order) * r / k;
        sum = sum + term;
    }
    return sum * 0.3989423 / adm_sqrt(x);
}
fn adm_i0e(x: f32) -> f32 {
    let a: f32 = abs(x);
    if (a > 9.0) { return adm_bessel_i_scaled(0.0, a); }
    return adm_exp(-a) * adm_bessel_i_series(0.0, a);
}
fn adm_i1e(x: f32) -> f32 {
    let a: f32 = abs(x);
    if (a > 9.0) { return adm_copysign(adm_bessel_i_scaled(1.0, a), x); }
    return 0.5 * x * adm_exp(-a) * adm_bessel_i_series(1.0, a);
}
fn adm_i0(x: f32) -> f32 {
    let a: f32 = abs(x);
    if (adm_isinf(a)) { return a; }
    if (a > 9.0) { return adm_exp(0.5 * a) * adm_bessel_i_scaled(0.0, a) * adm_exp(0.5 * a); }
    return adm_bessel_i_series(0.0, a);
}
fn adm_i1(x: f32) -> f32 {
    let a: f32 = abs(x);
    if (adm_isinf(a)) { return x; }
    if (a > 9.0) { return adm_copysign(adm_exp(0.5 * a) * adm_bessel_i_scaled(1.0, a) * adm_exp(0.5 * a), x); }
    return 0.5 * x * adm_bessel_i_series(1.0, a);
}

// Bessel functions: to 3 a polynomial, J₀ with its first zero split off; above, amplitude and phase as polynomials of
// 3/x, the form of Abramowitz and Stegun's 9.4.3 and 9.4.6.
fn adm_j0_small(x: f32) -> f32 {
    let z: f32 = x * x;
    let p: f32 = (((((-2.0689533e-12 * z + 4.5385698e-10) * z - 6.514974e-08) * z + 6.404711e-06) * z - 0.0003969876) * z + 0.013329146) * z - 0.17291507;
    return p * ((x - 2.4048256) * (x + 2.4048256));
}
fn adm_j1_small(x: f32) -> f32 {
    let z: f32 = x * x;
    return x * ((((((2.8994758e-11 * z - 5.591832e-09) * z + 6.777808e-07) * z - 5.4252152e-05) * z + 0.0026041644) * z - 0.0625) * z + 0.5);
}
fn adm_bessel0_amplitude(x: f32) -> f32 {
    let u: f32 = 3.0 / x;
    return ((((((0.00013498389 * u - 0.000698833) * u + 0.0013394882) * u - 7.798734e-05) * u - 0.0055314265) * u - 4.49681e-07) * u + 0.7978846) / adm_sqrt(x);
}
fn adm_bessel0_phase(x: f32) -> f32 {
    let u: f32 = 3.0 / x;
    return u * ((((((-0.00016502745 * u + 0.00071912986) * u - 0.0011125683) * u + 3.8372607e-05) * u + 0.0024101657) * u - 2.0278799e-07) * u - 0.04166666) - 0.7853982;
}
fn adm_bessel1_amplitude(x: f32) -> f32 {
    let u: f32 = 3.0 / x;
    return ((((((-0.00018296255 * u + 0.0010831899) * u - 0.0024332397) * u + 0.0001377181) * u + 0.016604781) * u + 9.059244e-07) * u + 0.7978845) / adm_sqrt(x);
}
fn adm_bessel1_phase(x: f32) -> f32 {
    let u: f32 = 3.0 / x;
    return u * ((((((0.00024007939 * u - 0.0011390169) * u + 0.001985522) * u - 9.495119e-05) * u - 0.0060675116) * u - 2.2480077e-07) * u + 0.125) - 2.3561945;
}
// sin and cos of x + phase: a large x would swallow the phase.
fn adm_sin_of_sum(x: f32, phase: f32) -> f32 {
    return adm_sin(x) * adm_cos(phase) + adm_cos(x) * adm_sin(phase);
}
fn adm_cos_of_sum(x: f32, phase: f32) -> f32 {
    return adm_cos(x) * adm_cos(phase) - adm_sin(x) * adm_sin(phase);
}
fn adm_j0(x: f32) -> f32 {
    let a: f32 = abs(x);
    if (adm_isinf(a)) { return 0.0; }
    if (a > 3.0) { return adm_bessel0_amplitude(a) * adm_cos_of_sum(a, adm_bessel0_phase(a)); }
    return adm_j0_small(a);
}
fn adm_j1(x: f32) -> f32 {
    let a: f32 = abs(x);
    if (adm_isinf(a)) { return 0.0; }
    if (a > 3.0) {
        let v: f32 = adm_bessel1_amplitude(a) * adm_cos_of_sum(a, adm_bessel1_phase(a));
        return select(v, -v, x < 0.0);
    }
    return adm_j1_small(x);
}
fn adm_y0(x: f32) -> f32 {
    if (x < 0.0) { return adm_nan(); }
    if (x == 0.0) { return -adm_inf(); }
    if (adm_isinf(x)) { return 0.0; }
    if (x > 3.0) { return adm_bessel0_amplitude(x) * adm_sin_of_sum(x, adm_bessel0_phase(x)); }
    let z: f32 = x * x;
    let p: f32 = ((((((2.6556806e-12 * z - 5.554257e-10) * z + 7.361393e-08) * z - 6.5022564e-06) * z + 0.00034707828) * z - 0.009179105) * z + 0.06728822) * z + 0.3674669;
    return 0.63661975 * (adm_log(x) - 0.6931472) * adm_j0_small(x) + p;
}
fn adm_y1(x: f32) -> f32 {
    if (x < 0.0) { return adm_nan(); }
    if (x == 0.0) { return -adm_inf(); }
    if (adm_isinf(x)) { return 0.0; }
    if (x > 3.0) { return adm_bessel1_amplitude(x) * adm_sin_of_sum(x, adm_bessel1_phase(x)); }
    let z: f32 = x * x;
    let p: f32 = ((((((-3.497651e-11 * z + 6.341722e-09) * z - 6.9267276e-07) * z + 4.7698926e-05) * z - 0.0018061536) * z + 0.026769228) * z + 0.024578514) * z - 0.63661975;
    if (x < 1e-30) { return p / x; }
    return 0.63661975 * adm_log(0.5 * x) * adm_j1_small(x) + p / x;
}

// Modified Bessel functions of the second kind: to 1 the power series (DLMF 10.31.1), above the trapezoidal rule on the integral of
// exp(-x (cosh t - 1)) cosh(order t), which converges exponentially.
fn adm_bessel_k_scaled(order: f32, x: f32) -> f32 {
    let step: f32 = min(0.45, 0.9 / adm_sqrt(x));
    var sum: f32 = 0.5;
    for (var k: f32 = 1.0; k < 15.0; k = k + 1.0) {
        let half: f32 = adm_sinh(0.5 * step * k);
        sum = sum + adm_exp(-2.0 * x * half * half) * adm_cosh(order * step * k);
    }
    return sum * step;
}
fn adm_k0_small(x: f32) -> f32 {
    let q: f32 = 0.25 * x * x;
    let log_half: f32 = adm_log(x) - 0.6931472;
    var term: f32 = 1.0;
    var psi: f32 = -0.57721566;
    var sum: f32 = psi - log_half;
    for (var k: f32 = 1.0; k < 8.0; k = k + 1.0) {
        term = term * q / (k * k);
        psi = psi + 1.0 / k;
        sum = sum + term * (psi - log_half);
    }
    return sum;
}
fn adm_k1_small(x: f32) -> f32 {
    let q: f32 = 0.25 * x * x;
    let log_half: f32 = adm_log(x) - 0.6931472;
    var term: f32 = 1.0;
    var psi: f32 = -0.07721566;
    var sum: f32 = log_half - psi;
    for (var k: f32 = 1.0; k < 8.0; k = k + 1.0) {
        term = term * q / (k * (k + 1.0));
        psi = psi + 0.5 / k + 0.5 / (k + 1.0);
        sum = sum + term * (log_half - psi);
    }
    return 1.0 / x + 0.5 * x * sum;
}
fn adm_bessel_k_small(order: f32, x: f32) -> f32 {
    if (order == 0.0) { return adm_k0_small(x); }
    return adm_k1_small(x);
}
// exp(x) K, of order 0 or 1; far out the series' first term.
fn adm_bessel_ke(order: f32, x: f32) -> f32 {
    if (!(x >= 0.0)) { return adm_nan(); }
    if (x == 0.0) { return adm_inf(); }
    if (x > 1e15) { return 1.2533141 / adm_sqrt(x); }
    if (x > 1.0) { return adm_bessel_k_scaled(order, x); }
    return adm_exp(x) * adm_bessel_k_small(order, x);
}
fn adm_bessel_k(order: f32, x: f32) -> f32 {
    if (x > 0.0 && x <= 1.0) { return adm_bessel_k_small(order, x); }
    if (x > 110.0) { return 0.0; }
    return adm_exp(-x) * adm_bessel_ke(order, x);
}
fn adm_k0e(x: f32) -> f32 {
    return adm_bessel_ke(0.0, x);
}
fn adm_k1e(x: f32) -> f32 {
    return adm_bessel_ke(1.0, x);
}
fn adm_k0(x: f32) -> f32 {
    return adm_bessel_k(0.0, x);
}
fn adm_k1(x: f32) -> f32 {
    return adm_bessel_k(1.0, x);
}
fn adm_spherical_j0(x: f32) -> f32 {
    if (x == 0.0) { return 1.0; }
    if (adm_isinf(x)) { return 0.0; }
    return adm_sin(x) / x;
}

// Airy's function (`which` 0) and its derivative (1) at 0, -1, .., -6.
fn adm_airy_center(k: f32, which: u32) -> f32 {
    if (k == 0.0) { return select(0.35502806, -0.2588194, which == 1u); }
    if (k == 1.0) { return select(0.53556088, -0.010160567, which == 1u); }
    if (k == 2.0) { return select(0.22740743, 0.61825902, which == 1u); }
    if (k == 3.0) { return select(-0.3788143, 0.31458377, which == 1u); }
    if (k == 4.0) { return select(-0.070265533, -0.79062858, which == 1u); }
    if (k == 5.0) { return select(0.35076101, 0.32719282, which == 1u); }
    return select(-0.32914517, 0.34593549, which == 1u);
}
// The Taylor series about the next of these, by y'' = x y.
fn adm_airy_near(x: f32, which: u32) -> f32 {
    let center: f32 = min(round(x), 0.0);
    let away: f32 = x - center;
    var before: f32 = 0.0;
    var here: f32 = adm_airy_center(-center, 0u);
    var next: f32 = adm_airy_center(-center, 1u);
    var value: f32 = here + next * away;
    var slope: f32 = next;
    var power: f32 = away;
    for (var n: f32 = 0.0; n < 14.0; n = n + 1.0) {
        let after: f32 = (center * here + before) / ((n + 1.0) * (n + 2.0));
        slope = slope + (n + 2.0) * after * power;
        power = power * away;
        value = value + after * power;
        before = here;
        here = next;
        next = after;
    }
    return select(value, slope, which == 1u);
}
// The asymptotic series at -z (DLMF 9.7.9, 9.7.10).
fn adm_airy_far(z: f32, which: u32) -> f32 {
    let zeta: f32 = 0.6666667 * z * adm_sqrt(z);
    var term: f32 = 1.0;
    var even: f32 = 1.0;
    var odd: f32 = 0.0;
    for (var k: f32 = 1.0; k < 10.0; k = k + 1.0) {
        term = term * (6.0 * k - 5.0) * (6.0 * k - 3.0) * (6.0 * k - 1.0) / (216.0 * k * (2.0 * k - 1.0) * zeta);
        let of_slope: f32 = select(1.0, -(6.0 * k + 1.0) / (6.0 * k - 1.0), which == 1u);
        let half: f32 = floor(0.5 * k);
        let part: f32 = select(term, -term, floor(0.5 * half) * 2.0 != half) * of_slope;
        if (half * 2.0 == k) { even = even + part; } else { odd = odd + part; }
    }
    let sine: f32 = adm_sin_of_sum(zeta, -0.7853982);
    let cosine: f32 = adm_cos_of_sum(zeta, -0.7853982);
    let fourth: f32 = adm_sqrt(adm_sqrt(z));
    return 0.5641896 * select((cosine * even + sine * odd) / fourth, (sine * even - cosine * odd) * fourth, which == 1u);
}
fn adm_airy_right(x: f32, which: u32) -> f32 {
    let root: f32 = adm_sqrt(x);
    let zeta: f32 = 0.6666667 * x * root;
    let shrunk: f32 = adm_exp(-zeta);
    if (which == 1u) { return -shrunk * x * 0.18377630 * adm_bessel_k_scaled(0.6666667, zeta); }
    return shrunk * root * 0.18377630 * adm_bessel_k_scaled(0.33333334, zeta);
}
fn adm_airy_ai(x: f32) -> f32 {
    if (adm_isnan(x)) { return x; }
    if (abs(x) > 1e20) { return 0.0; }
    if (x > 0.5) { return adm_airy_right(x, 0u); }
    if (x > -6.5) { return adm_airy_near(x, 0u); }
    return adm_airy_far(-x, 0u);
}
fn adm_airy_ai_derivative(x: f32) -> f32 {
    if (adm_isnan(x) || x < -1e30) { return select(0.0, adm_nan(), adm_isnan(x) || adm_isinf(x)); }
    if (abs(x) > 1e20) { return 0.0; }
    if (x > 0.5) { return adm_airy_right(x, 1u); }
    if (x > -6.5) { return adm_airy_near(x, 1u); }
    return adm_airy_far(-x, 1u);
}

// x^a e^-x / Γ(a+1): by logarithms for small a, else by Loader's saddle point form (2000).
fn adm_gamma_weight(a: f32, x: f32) -> f32 {
    // The powers overflow long after the weight is zero.
    if (x > 1e18 && x > 2.0 * a) { return 0.0; }
    if (a < 0.5) { return adm_exp((a * adm_log(x) - x) - a * adm_lgamma_one(a)); }
    if (a < 4.0) { return adm_pow(x, a) * adm_exp(-x - adm_lgamma(a + 1.0)); }
    let r: f32 = 1.0 / a;
    let z: f32 = r * r;
    let stirling: f32 = r * (((-0.0005952381 * z + 0.0007936508) * z - 0.0027777778) * z + 0.083333336);
    var deviance: f32 = 0.0;
    if (abs(a - x) < 0.1 * (a + x)) {
        let v: f32 = (a - x) / (a + x);
        let w: f32 = v * v;
        deviance = (a - x) * v + 2.0 * a * v * w * (0.33333334 + w * (0.2 + w * (0.14285715 + w * 0.11111111)));
    } else {
        deviance = a * adm_log(a / x) + (x - a);
    }
    return adm_exp(-stirling - deviance) * 0.3989423 / adm_sqrt(a);
}
fn adm_igamma_series(a: f32, x: f32) -> f32 {
    var term: f32 = 1.0;
    var sum: f32 = 1.0;
    var n: f32 = a;
    for (var i: i32 = 0; i < 2000 && term > sum * 1e-8; i = i + 1) {
        n = n + 1.0;
        term = term * x / n;
        sum = sum + term;
    }
    return adm_gamma_weight(a, x) * sum;
}
fn adm_igammac_fraction(a: f32, x: f32) -> f32 {
    var b: f32 = x + 1.0 - a;
    var c: f32 = 1e30;
    var d: f32 = 1.0 / b;
    var h: f32 = d;
    var step: f32 = 2.0;
    for (var i: f32 = 1.0; i < 2000.0 && abs(step - 1.0) > 6e-8; i = i + 1.0) {
        let n: f32 = -i * (i - a);
        b = b + 2.0;
        d = 1.0 / (n * d + b);
        c = b + n / c;
        step = c * d;
        h = h * step;
    }
    return adm_gamma_weight(a, x) * a * h;
}
// 1 - x^a/Γ(1+a) · (1 + a Σ (-x)^n / (n! (a+n))) for small a and x.
fn adm_igammac_series(a: f32, x: f32) -> f32 {
    var power: f32 = 1.0;
    var sum: f32 = 0.0;
    for (var n: f32 = 1.0; n < 20.0; n = n + 1.0) {
        power = power * -x / n;
        sum = sum + power / (a + n);
    }
    let l: f32 = a * adm_log(x) - a * adm_lgamma_one(a);
    return -adm_expm1(l) - adm_exp(l) * a * sum;
}
// The edges' P by PyTorch's conventions; -1 inside.
fn adm_igamma_edge(a: f32, x: f32) -> f32 {
    if (!(a >= 0.0 && x >= 0.0)) { return adm_nan(); }
    if (a == 0.0) { return select(adm_nan(), 1.0, x > 0.0); }
    if (x == 0.0) { return 0.0; }
    if (adm_isinf(a)) { return select(0.0, adm_nan(), adm_isinf(x)); }
    return select(-1.0, 1.0, adm_isinf(x));
}
// P, or Q, of an a so large that all happens beside x = a: Temme's uniform expansion (DLMF 8.12.3, its first term).
fn adm_igamma_large(a: f32, x: f32, upper: bool) -> f32 {
    let r: f32 = x / a - 1.0;
    if (!(abs(r) < 0.01)) { return select(0.0, 1.0, (r > 0.0) != upper); }
    let deviance: f32 = a * r * r * (0.5 - r * (0.33333334 - r * (0.25 - r * 0.2)));
    let side: f32 = select(-1.0, 1.0, (r > 0.0) == upper) * adm_sqrt(deviance);
    let rest: f32 = adm_exp(-deviance) * 0.13298076 / adm_sqrt(a);
    return 0.5 * adm_erfc(side) + select(rest, -rest, upper);
}
fn adm_igamma(a: f32, x: f32) -> f32 {
    let edge: f32 = adm_igamma_edge(a, x);
    if (!(edge == -1.0)) { return edge; }
    if (a > 1e12) { return adm_igamma_large(a, x, false); }
    if (x < a + 1.0) { return adm_igamma_series(a, x); }
    return 1.0 - adm_igammac_fraction(a, x);
}
fn adm_igammac(a: f32, x: f32) -> f32 {
    let edge: f32 = adm_igamma_edge(a, x);
    if (!(edge == -1.0)) { return 1.0 - edge; }
    if (a > 1e12) { return adm_igamma_large(a, x, true); }
    if (x < 1.5 && a < 0.5) { return adm_igammac_series(a, x); }
    if (x < a + 1.0) { return 1.0 - adm_igamma_series(a, x); }
    return adm_igammac_fraction(a, x);
}

// Round a float to the nearest f16 or bf16, ties to even, as a float.
fn adm_round_bf16(x: f32) -> f32 {
    if (!adm_isfinite(x)) { return x; }
    let b: u32 = bitcast<u32>(x);
    return bitcast<f32>((b + 0x7fffu + ((b >> 16u) & 1u)) & 0xffff0000u);
}
fn adm_round_f16(x: f32) -> f32 {
    if (!adm_isfinite(x)) { return x; }
    let a: f32 = abs(x);
    // Below the normal range the grid is that of 2^-24.
    if (a < 6.1035156e-05) { return adm_copysign(round(a * 16777216.0) * 5.9604645e-8, x); }
    let b: u32 = bitcast<u32>(x);
    let r: f32 = bitcast<f32>((b + 0xfffu + ((b >> 13u) & 1u)) & 0xffffe000u);
    return select(r, adm_copysign(adm_inf(), x), abs(r) > 65504.0);
}

// 16-bit floats as their bits. Exact on every device: a GPU's own conversions may flush subnormal numbers.
fn adm_f16_of_bits(h: u32) -> f32 {
    let sign: u32 = (h & 0x8000u) << 16u;
    let magnitude: u32 = h & 0x7fffu;
    // Subnormal: a whole number of 2^-24.
    if (magnitude < 0x400u) { return bitcast<f32>(sign | bitcast<u32>(f32(magnitude) * 5.9604645e-8)); }
    if (magnitude >= 0x7c00u) { return bitcast<f32>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13u)); }
    return bitcast<f32>(sign | ((magnitude << 13u) + 0x38000000u));
}
fn adm_bits_of_f16(x: f32) -> u32 {
    // The value is on f16's grid already.
    let b: u32 = bitcast<u32>(x);
    let sign: u32 = (b >> 16u) & 0x8000u;
    let magnitude: u32 = b & 0x7fffffffu;
    if (magnitude > 0x7f800000u) { return sign | 0x7e00u; }
    if (magnitude == 0x7f800000u) { return sign | 0x7c00u; }
    if (magnitude < 0x38800000u) { return sign | u32(bitcast<f32>(magnitude) * 16777216.0); }
    return sign | ((magnitude - 0x38000000u) >> 13u);
}
fn adm_bits_of_bf16(x: f32) -> u32 {
    let b: u32 = bitcast<u32>(x);
    // A NaN whose mark lies in the half that is cut off stays one.
    return select(b >> 16u, (b >> 16u) | 0x40u, (b & 0x7fffffffu) > 0x7f800000u);
}

// OCP fp8 (OFP8, 2023): overflow is NaN with 4 exponent bits and infinity with 5.
fn adm_round_f8_e4m3(x: f32) -> f32 {
    let a: f32 = abs(x);
    if (!(a < 3.0e38)) { return adm_nan(); }
    if (a < 0.015625) { return adm_copysign(round(a * 512.0) * 0.001953125, x); }
    let b: u32 = bitcast<u32>(x);
    let r: f32 = bitcast<f32>((b + 0x7ffffu + ((b >> 20u) & 1u)) & 0xfff00000u);
    return select(r, adm_nan(), abs(r) > 448.0);
}
fn adm_round_f8_e5m2(x: f32) -> f32 {
    if (!adm_isfinite(x)) { return x; }
    let a: f32 = abs(x);
    if (a < 6.1035156e-05) { return adm_copysign(round(a * 65536.0) * 1.5258789e-05, x); }
    let b: u32 = bitcast<u32>(x);
    let r: f32 = bitcast<f32>((b + 0xfffffu + ((b >> 21u) & 1u)) & 0xffe00000u);
    return select(r, adm_copysign(adm_inf(), x), abs(r) > 57344.0);
}

// Philox4x32-10 (Salmon et al., SC 2011): the bits of one element under a key.
fn adm_random_bits(seed_low: u32, seed_high: u32, stream: u32, counter: u32, index_low: u32, index_high: u32) -> u32 {
    var k0: u32 = seed_low;
    var k1: u32 = seed_high;
    var c0: u32 = (index_low >> 2u) | (index_high << 30u);
    var c1: u32 = index_high >> 2u;
    var c2: u32 = stream;
    var c3: u32 = counter;
    for (var round: i32 = 0; round < 10; round = round + 1) {
        let h0: u32 = adm_mul_high(0xd2511f53u, c0);
        let h1: u32 = adm_mul_high(0xcd9e8d57u, c2);
        let l0: u32 = 0xd2511f53u * c0;
        let l1: u32 = 0xcd9e8d57u * c2;
        c0 = h1 ^ c1 ^ k0;
        c1 = l1;
        c2 = h0 ^ c3 ^ k1;
        c3 = l0;
        k0 = k0 + 0x9e3779b9u;
        k1 = k1 + 0xbb67ae85u;
    }
    let word: u32 = index_low & 3u;
    return select(select(c0, c1, word == 1u), select(c2, c3, word == 3u), word >= 2u);
}
