//! Special functions in f64 that neither std nor libm has, with the source of each method.

/// floor(x / y) as Python and PyTorch define it: exact where x / y rounds up to an integer that it is not.
pub fn floor_divide(x: f64, y: f64) -> f64 {
    if y == 0.0 {
        return x / y;
    }
    let rem = x % y;
    let mut div = (x - rem) / y;
    if rem != 0.0 && (y < 0.0) != (rem < 0.0) {
        div -= 1.0;
    }
    if div == 0.0 { 0f64.copysign(x / y) } else { let f = div.floor(); if div - f > 0.5 { f + 1.0 } else { f } }
}
/// x mod y with the sign of y.
pub fn remainder(x: f64, y: f64) -> f64 {
    let r = x % y;
    if r != 0.0 && (r < 0.0) != (y < 0.0) { r + y } else { r }
}
