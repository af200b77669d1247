//! Which rows of the scalar table are computed one element at a time.
use super::*;

/// Rows that no vector formula is known for, by the numbers they are computed on. A row that gets one must leave this list.
const ONE_BY_ONE: [(TileKind, &[&str]); 3] = [
    (TileKind::F32, &[]),
    (
        TileKind::F64,
        &[
            "sinc_derivative",
            "log_ndtr",
            "lgamma",
            "digamma",
            "trigamma",
            "i0",
            "i0e",
            "i1",
            "i1e",
            "bessel_j0",
            "bessel_j1",
            "bessel_y0",
            "bessel_y1",
            "modified_bessel_k0",
            "scaled_modified_bessel_k0",
            "modified_bessel_k1",
            "scaled_modified_bessel_k1",
            "spherical_bessel_j0",
            "airy_ai",
            "airy_ai_derivative",
            "ldexp",
            "igamma",
            "igammac",
            "zeta",
            "polygamma",
        ],
    ),
    (TileKind::I64, &["pow", "gcd", "lcm"]),
];

/// Is it computed one element at a time, on numbers of this kind?
fn is_one_by_one(code: &Code, kind: TileKind) -> bool {
    match code {
        Code::RealUnary(RealUnary::Special(..), _) => kind == TileKind::F64,
        Code::RealBinary(RealBinary::Partial(f, _), ..) => kind == TileKind::F64 && !f.is_double(),
        Code::RealUnary(RealUnary::Exact(_), _) | Code::RealTest(RealTest::Exact(_), _) => true,
        Code::RealBinary(RealBinary::Exact(_), ..) | Code::RealPredicate(RealPredicate::Exact(_), ..) => true,
        Code::IntUnary(IntUnary::Exact(_), _) | Code::IntTest(IntTest::Exact(_), _) => true,
        Code::IntBinary(IntBinary::Exact(_), ..) | Code::IntPredicate(IntPredicate::Exact(_), ..) => true,
        _ => false,
    }
}
#[test]
fn a_row_that_is_computed_one_by_one_beyond_the_list_or_no_longer() {
    for (kind, want) in ONE_BY_ONE {
        let dtype = match kind {
            TileKind::F32 => DType::F32,
            TileKind::F64 => DType::F64,
            _ => DType::I64,
        };
        let mut found: Vec<&str> = Vec::new();
        found.extend(Unary::ALL.iter().filter(|f| f.infer(dtype).is_ok() && is_one_by_one(&unary(**f, 0, (kind, dtype)), kind)).map(|f| f.name()));
        found.extend(Binary::ALL.iter().filter(|f| f.infer(dtype).is_ok() && is_one_by_one(&binary(**f, 0, 1, kind), kind)).map(|f| f.name()));
        assert_eq!(found, want, "on {kind:?}");
    }
}
