// Integer functions for every integer type: `T` is replaced by the type, `BITS` by its width. Signed and unsigned
// differ only where the sign matters. A division by zero gives 0; the fault is the kernel's to report.

fn adm_iabs_T(x: T) -> T {
    return select(x, T(0) - x, x < T(0));
}
fn adm_isign_T(x: T) -> T {
    return select(select(T(0), T(0) - T(1), x < T(0)), T(1), x > T(0));
}
fn adm_imax_T(x: T, y: T) -> T {
    return select(y, x, x > y);
}
fn adm_imin_T(x: T, y: T) -> T {
    return select(y, x, x < y);
}
fn adm_ipow_T(x: T, y: T) -> T {
    if (y < T(0)) {
        if (x == T(1)) { return x; }
        if (x == T(0) - T(1)) { return select(x, T(1), (y & T(1)) == T(0)); }
        return T(0);
    }
    var base: T = x;
    var left: T = y;
    var product: T = T(1);
    while (left > T(0)) {
        if ((left & T(1)) == T(1)) { product = product * base; }
        base = base * base;
        left = left >> 1u;
    }
    return product;
}
fn adm_idiv_T(x: T, y: T) -> T {
    if (y == T(0)) { return T(0); }
    // The smallest number over -1 overflows.
    if (y < T(0) && y == T(0) - T(1)) { return T(0) - x; }
    return x / y;
}
fn adm_ifmod_T(x: T, y: T) -> T {
    if (y == T(0) || (y < T(0) && y == T(0) - T(1))) { return T(0); }
    return x % y;
}
fn adm_iremainder_T(x: T, y: T) -> T {
    let r: T = adm_ifmod_T(x, y);
    return select(r, r + y, r != T(0) && (r < T(0)) != (y < T(0)));
}
fn adm_ifloor_divide_T(x: T, y: T) -> T {
    let r: T = adm_ifmod_T(x, y);
    return adm_idiv_T(x, y) - select(T(0), T(1), r != T(0) && (r < T(0)) != (y < T(0)));
}
fn adm_iheaviside_T(x: T, y: T) -> T {
    return select(select(T(0), T(1), x > T(0)), y, x == T(0));
}
fn adm_ishl_T(x: T, y: T) -> T {
    if (y < T(0) || y >= T(BITS)) { return T(0); }
    return x << u32(y);
}
fn adm_ishr_T(x: T, y: T) -> T {
    if (y < T(0) || y >= T(BITS)) { return select(T(0), T(0) - T(1), x < T(0)); }
    return x >> u32(y);
}
fn adm_igcd_T(x: T, y: T) -> T {
    var a: T = adm_iabs_T(x);
    var b: T = adm_iabs_T(y);
    while (b != T(0)) {
        let r: T = adm_iabs_T(adm_ifmod_T(a, b));
        a = b;
        b = r;
    }
    return a;
}
fn adm_ilcm_T(x: T, y: T) -> T {
    let g: T = adm_igcd_T(x, y);
    if (g == T(0)) { return g; }
    return adm_iabs_T(adm_idiv_T(x, g)) * adm_iabs_T(y);
}
// As f32 rounded to odd (Boldo and Melquiond, 2008), so that a second rounding to at most 22 bits is exact.
fn adm_iodd_T(x: T) -> f32 {
    // A leading bit above 24 is left of what is cut off, which leaves its mark in the last bit that stays.
    var high: T = x;
    var lost: T = T(0);
    var scale: f32 = 1.0;
    while (high >= T(16777216) || (high < T(0) && high < T(0) - T(16777216))) {
        lost = lost | (high & T(1));
        high = high >> 1u;
        scale = scale * 2.0;
    }
    return f32(high | lost) * scale;
}
