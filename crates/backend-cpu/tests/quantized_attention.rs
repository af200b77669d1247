//! Attention over codes: the kernel has the bits of the body, on every instruction set and number of threads, with drawn shapes,
//! packings, masks and dtypes.
#![allow(clippy::unwrap_used)]
mod devices;
use adamant_core::{
    composite::{keyed, packed::Packing, quantized_attention::QuantizedAttention},
    functional::{QuantizedAttentionOptions, TokenCodes, quantized_attention},
    *,
};
use devices::devices;

fn numbers(shape: &[usize], seed: u32) -> Tensor {
    let n: usize = shape.iter().product();
    let v = (0..n as u64).map(|k| ((rng::element_bits([seed, 0, 0, 0], k) >> 8) as f64 / (1 << 22) as f64 - 2.0) as f32).collect::<Vec<f32>>();
    Tensor::from_vec(v, shape)
}
fn bits(t: &Tensor) -> Vec<u64> {
    let canonical = |v: &f64| if v.is_nan() { f64::NAN.to_bits() } else { v.to_bits() };
    t.cast(DType::F64).to_vec::<f64>().unwrap().iter().map(canonical).collect()
}
struct Drawn {
    seed: u32,
    at: u64,
}
impl Drawn {
    fn below(&mut self, n: usize) -> usize {
        self.at += 1;
        (rng::element_bits([self.seed, 79, 0, 0], self.at) as usize >> 4) % n
    }
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}
/// What one case has.
struct Case {
    of: QuantizedAttention,
    q: [usize; 4],
    shared: usize,
    keys: usize,
    tokens: i32,
    dtype: DType,
    scales: DType,
    mask: Option<Vec<usize>>,
    seed: u32,
    /// a token whose scale is no finite number
    bad: Option<usize>,
}
impl Case {
    fn drawn(seed: u32) -> Case {
        let mut d = Drawn { seed, at: 0 };
        let packing = Packing { bits: d.pick(&[8, 8, 4]), group: None, symmetric: d.below(2) == 0 };
        let (batch, shared, ratio) = (d.pick(&[1, 1, 2]), d.pick(&[1, 2, 3]), d.pick(&[1, 1, 2, 4]));
        let queries = d.pick(&[1, 1, 1, 2, 4, 5, 33, 70]);
        let keys = d.pick(&[1, 3, 31, 32, 33, 64, 100, 255, 256, 257, 300, 520]);
        let (e, features) = (d.pick(&[1, 3, 8, 16, 31, 32, 64, 65, 128, 260]), d.pick(&[1, 5, 16, 32, 63, 64, 65, 96, 130]));
        let tokens = d.pick(&[keys, keys, keys / 2, 0, keys + 7]) as i32;
        let q = [batch, shared * ratio, queries, e];
        let masks = [
            None,
            None,
            None,
            Some(vec![batch, 1, 1, keys]),
            Some(vec![queries, keys]),
            Some(vec![batch, q[1], queries, keys]),
            Some(vec![1, keys]),
            Some(vec![q[1], 1, 1]),
        ];
        let mask = masks[d.below(masks.len())].clone();
        let causal = d.below(2) == 0;
        let of = QuantizedAttention { scale: 0.3, causal, mask: mask.is_some(), features, packing };
        let dtype = d.pick(&[DType::F32, DType::F32, DType::F16, DType::BF16]);
        let bad = (d.below(5) == 0).then(|| d.below(keys));
        Case { of, q, shared, keys, tokens, dtype, scales: d.pick(&[DType::F16, DType::F32]), mask, seed, bad }
    }
    fn inputs(&self) -> Vec<Tensor> {
        let packing = self.of.packing;
        let rows = |features: usize, seed: u32| {
            let shape = [self.q[0], self.shared, self.keys, features];
            let codes = TokenCodes::round(&numbers(&shape, seed), packing).unwrap();
            let scale = codes.scale().cast(self.scales);
            let scale = match self.bad {
                Some(at) => scale.update_slice(2, at, &(scale.narrow(2, at, 1) * f64::INFINITY)),
                None => scale,
            };
            [Some(codes.codes().clone()), Some(scale), codes.zero_point().cloned()].into_iter().flatten().collect::<Vec<_>>()
        };
        let mut all = vec![numbers(&self.q, 3 + self.seed).cast(self.dtype)];
        all.extend(rows(self.q[3], 5 + self.seed));
        all.extend(rows(self.of.features, 7 + self.seed));
        all.push(Tensor::full((), i64::from(self.tokens), DType::I32));
        all.extend(self.mask.as_ref().map(|shape| numbers(shape, 9 + self.seed).gt(-1.0)));
        all
    }
}
#[test]
fn the_kernel_has_the_bits_of_the_body() {
    let devices = devices(&[1, 2, 4]);
    for seed in 0..160 {
        let case = Case::drawn(seed);
        let mut first: Option<Vec<u64>> = None;
        for (name, device) in &devices {
            device.scoped(|| {
                let inputs = case.inputs();
                let what = || format!("seed {seed}: {:?} of {:?} on {name}", case.of, inputs.iter().map(|t| t.shape().unwrap()).collect::<Vec<_>>());
                let fused = Tensor::apply_many(Op::Composite(keyed(case.of)), Arg::None, &inputs.iter().collect::<Vec<_>>(), Origin::here());
                let (fused, body) = (bits(&fused[0]), bits(&case.of.body(&inputs).unwrap()[0]));
                for (at, (&f, &b)) in fused.iter().zip(&body).enumerate() {
                    assert!(f == b, "{}: element {at} is {:e}, the body's {:e}", what(), f64::from_bits(f), f64::from_bits(b));
                }
                match &first {
                    None => first = Some(fused),
                    Some(first) => assert!(first == &fused, "{}: bits differ between devices", what()),
                }
            });
        }
    }
}
#[test]
fn a_query_has_the_same_bits_alone_and_among_others() {
    for (_, device) in devices(&[1, 2, 4]) {
        device.scoped(|| {
            for packing in [Packing { bits: 8, group: None, symmetric: true }, Packing { bits: 4, group: None, symmetric: false }] {
                let (k, v) = (TokenCodes::round(&numbers(&[2, 300, 48], 1), packing).unwrap(), TokenCodes::round(&numbers(&[2, 300, 40], 2), packing).unwrap());
                let q = numbers(&[2, 300, 48], 3);
                let all = quantized_attention(&q, &k, &v, &QuantizedAttentionOptions { is_causal: true, ..Default::default() });
                for at in [0, 1, 63, 64, 200, 255, 256, 299] {
                    let options = QuantizedAttentionOptions { tokens: Some(at + 1), is_causal: true, ..Default::default() };
                    let one = quantized_attention(&q.narrow(1, at, 1), &k, &v, &options);
                    assert_eq!(bits(&one), bits(&all.narrow(1, at, 1)), "query {at}, {packing:?}");
                }
            }
        });
    }
}
#[test]
fn nothing_to_see_gives_zeros() {
    let packing = Packing { bits: 8, group: None, symmetric: true };
    for (_, device) in devices(&[1, 2, 4]) {
        device.scoped(|| {
            let codes = TokenCodes::round(&numbers(&[1, 3, 4], 1), packing).unwrap();
            let none = codes.narrow(0, 0).unwrap();
            let q = numbers(&[1, 2, 4], 2);
            for (codes, tokens) in [(&none, 0), (&codes, 0)] {
                let y = quantized_attention(&q, codes, codes, &QuantizedAttentionOptions { tokens: Some(tokens), ..Default::default() });
                assert_eq!(y.to_vec::<f32>().unwrap(), [0.0; 8]);
            }
        });
    }
}
