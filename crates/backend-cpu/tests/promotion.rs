//! Promoted ops on this device: the bits of the reference, fused or not, and a strict scope that a compiled function knows.
use adamant_backend_cpu as _;
use adamant_core::{DType, Device, Tensor, compile, promotion::strict};

const DTYPES: [DType; 10] = [DType::Bool, DType::U8, DType::I8, DType::I32, DType::U32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64];

#[test]
fn promoted_ops_have_the_reference_s_bits() {
    let cpu = Device::cpu().unwrap();
    let make = |d: DType, device: Device, by: f64| {
        let numbers = Tensor::from_vec_on((0..37).map(|k| f64::from(k % 11) * by - 1.0).collect(), [37], device);
        if d == DType::U32 || d == DType::U8 { numbers.abs() } else { numbers }.cast(d)
    };
    let mut seen = 0;
    for left in DTYPES {
        for right in DTYPES {
            let on = |device: Device| {
                let (a, b) = (make(left, device, 1.0), make(right, device, 0.5));
                // Two casts, a product, a comparison and a choice in one window.
                let both = &a * &b + 2;
                vec![both.gt(&a).where_(&both, &b), a.maximum(&b), Tensor::cat(&[&a, &b], 0), a.le(&b)]
            };
            for (ours, wanted) in on(cpu).iter().zip(on(Device::reference())) {
                match (ours.materialize(), wanted.materialize()) {
                    (Ok(()), Ok(())) => {
                        assert_eq!(ours.dtype().unwrap(), wanted.dtype().unwrap(), "{left} {right}");
                        assert_eq!(ours.to_bytes().unwrap(), wanted.to_bytes().unwrap(), "{left} {right}");
                        seen += 1;
                    }
                    (Err(a), Err(b)) => assert_eq!(a.kind(), b.kind(), "{left} {right}"),
                    (a, b) => panic!("{left} {right}: {a:?} here, {b:?} by the reference"),
                }
            }
        }
    }
    assert!(seen > 300, "{seen} results were compared");
}
#[test]
fn a_compiled_function_is_captured_again_where_dtypes_do_not_promote() {
    let cpu = Device::cpu().unwrap();
    let (x, ids) = (Tensor::ones_on([2], DType::F32, cpu), Tensor::ones_on([2], DType::I64, cpu));
    let compiled = compile(|x: &[Tensor]| Ok(vec![&x[0] * &x[1]]));
    let runs = || compiled.call(&[&x, &ids]).and_then(|y| y[0].materialize()).is_ok();
    assert!(runs() && !strict(runs) && runs());
}
