//! x Φ(x) in twice the precision of f64: in the tail, and where Φ is a small rest of ½, an error of Φ is one of the product
//! several times larger. Must not know how a device computes it.
use super::pair::DekkerPair;

const FRAC_1_SQRT_TAU: DekkerPair = DekkerPair(0.3989422804014327, -2.49232720227773e-17);

/// x Φ(x), rounded once but for some 2^-90; NaN at both infinities, as PyTorch's. Φ is ½ + φ(x) Σ x^(2k+1) / (2k+1)!!
/// (NIST Handbook of Mathematical Functions, 7.6.2), to the left of -4 φ / (|x| + 1/(|x| + 2/(|x| + ..))), Laplace's fraction.
pub fn gelu(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return if x == 0.0 { x } else { f64::NAN };
    }
    if !(-40.0..9.0).contains(&x) {
        // Nothing of Φ is left, or nothing of 1 - Φ.
        return if x < 0.0 { -0.0 } else { x };
    }
    let (line, square) = (DekkerPair(x, 0.0), DekkerPair(x, 0.0).times(DekkerPair(x, 0.0)));
    let (e, n) = DekkerPair(-0.5 * square.0, -0.5 * square.1).exp();
    let density = e.times(FRAC_1_SQRT_TAU);
    if x < -4.0 {
        // The rest of the fraction after so many levels: below 2^-90 at -4, and less beyond.
        let fraction = (1..=60).rev().fold(DekkerPair(-x, 0.0), |rest, k| DekkerPair(-x, 0.0).plus(DekkerPair(f64::from(k), 0.0).over(rest)));
        let product = line.times(density).over(fraction);
        // Rounded once, also where it has fewer bits.
        return libm::scalbn(product.0 + product.1, n);
    }
    let (mut term, mut sum, mut odd) = (line, line, 1.0);
    while term.0.abs() > 1e-30 * sum.0.abs() {
        odd += 2.0;
        term = term.times(square).over(DekkerPair(odd, 0.0));
        sum = sum.plus(term);
    }
    let density = DekkerPair(libm::scalbn(density.0, n), libm::scalbn(density.1, n));
    let product = line.times(density.times(sum).plus(DekkerPair(0.5, 0.0)));
    product.0 + product.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_not_the_nearest() {
        // From 90 digits.
        for (x, want) in [
            (-37.5, -1.7270073785932332e-306),
            (-30.25, -7.891136864367313e-200),
            (-12.75, -1.987376018323529e-36),
            (-6.5, -2.6104003795084267e-10),
            (-4.0009765625, -0.00012619401437696906),
            (-3.999, -0.00012718955487675394),
            (-2.6875, -0.009673535619976787),
            (-1.5, -0.1002108019032871),
            (-1.0625, -0.15300465268959412),
            (-1.0, -0.15865525393145705),
            (-0.75, -0.16997051428265114),
            (-0.3, -0.1146265733433142),
            (-0.001, -0.000499601057786089),
            (1e-300, 5e-301),
            (-0.0, -0.0),
            (0.5, 0.34573123063700656),
            (1.75, 1.67989647548832),
            (4.5, 4.4999847104709385),
            (8.25, 8.25),
            (f64::MAX, f64::MAX),
            (f64::MIN, -0.0),
        ] {
            assert_eq!(gelu(x).to_bits(), f64::to_bits(want), "{x}: {} instead of {want}", gelu(x));
        }
        assert!([f64::NAN, f64::INFINITY, f64::NEG_INFINITY].iter().all(|x| gelu(*x).is_nan()));
    }
}
