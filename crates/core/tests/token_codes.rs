//! Codes of tokens against a plain computation on the host: how they are found and stored, what they stand for, how they grow, and the
//! attention over them, whose reference is written in f64 and reads the codes by itself.
use adamant_core::{
    DType, Device, Result, Tensor,
    composite::packed::Packing,
    f16,
    functional::{AttentionOptions, QuantizedAttentionOptions, TokenCodes, quantized_attention, scaled_dot_product_attention},
};

struct Draw(u64);
impl Draw {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 40) as f32 / (1u64 << 24) as f32) * 4.0 - 1.7
    }
    fn below(&mut self, n: usize) -> usize {
        self.next();
        (self.0 >> 33) as usize % n
    }
    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
    /// Some rows are zeros, some constant, some have an outlier, some are tiny.
    fn rows(&mut self, shape: &[usize]) -> Tensor {
        let features = shape[shape.len() - 1];
        let rows: usize = shape[..shape.len() - 1].iter().product();
        let mut all = Vec::new();
        for _ in 0..rows {
            let mut row: Vec<f32> = (0..features).map(|_| self.next()).collect();
            let first = row[0];
            match self.below(9) {
                0 => row.fill(0.0),
                1 => row.fill(first),
                2 => row[0] *= 300.0,
                3 => row.iter_mut().for_each(|v| *v = v.abs() + 3.0),
                4 => row.iter_mut().for_each(|v| *v *= 1e-12),
                _ => {}
            }
            all.extend(row);
        }
        Tensor::from_vec(all, shape.to_vec())
    }
}
const PACKINGS: [Packing; 4] = [
    Packing { bits: 8, group: None, symmetric: true },
    Packing { bits: 8, group: None, symmetric: false },
    Packing { bits: 4, group: None, symmetric: true },
    Packing { bits: 4, group: None, symmetric: false },
];
fn scales(codes: &TokenCodes) -> Result<Vec<f16>> {
    Ok(codes.scale().cast(DType::F32).to_vec::<f32>()?.into_iter().map(f16::from_f32).collect())
}
fn zeros(codes: &TokenCodes) -> Result<Option<Vec<u8>>> {
    codes.zero_point().map(|z| z.to_vec::<u8>()).transpose()
}
/// The codes of each row, less what they count from.
fn centered(codes: &TokenCodes) -> Result<Vec<i64>> {
    let Packing { bits, symmetric, .. } = codes.packing();
    let shape = codes.shape();
    let features = shape[shape.rank() - 1];
    let zero = zeros(codes)?;
    let bytes: Vec<u8> =
        if bits == 8 && symmetric { codes.codes().to_vec::<i8>()?.into_iter().map(|v| v as u8).collect() } else { codes.codes().to_vec::<u8>()? };
    let length = (features * bits as usize).div_ceil(8);
    let code = |row: usize, c: usize| {
        let base = zero.as_ref().map_or(0, |z| i64::from(z[row]));
        match (bits, symmetric) {
            (8, true) => i64::from(bytes[row * length + c] as i8),
            (8, false) => i64::from(bytes[row * length + c]) - base,
            (_, symmetric) => i64::from(bytes[row * length + c / 2] >> (4 * (c % 2)) & 15) - if symmetric { 8 } else { base },
        }
    };
    Ok((0..shape.elements()).map(|at| code(at / features, at % features)).collect())
}
fn numbers(codes: &TokenCodes) -> Result<Vec<f64>> {
    let shape = codes.shape();
    let (features, scale) = (shape[shape.rank() - 1], scales(codes)?);
    Ok(centered(codes)?.into_iter().enumerate().map(|(at, c)| c as f64 * scale[at / features].to_f64()).collect())
}

#[test]
fn codes_are_the_nearest_by_the_scale_that_is_stored() -> Result<()> {
    Device::reference().make_current();
    let mut draw = Draw(3);
    for packing in PACKINGS {
        for features in [1usize, 2, 5, 16, 33, 64] {
            let x = draw.rows(&[2, 3, 5, features]);
            let codes = TokenCodes::round(&x, packing)?;
            let (host, got, scale, zero) = (x.to_vec::<f32>()?, centered(&codes)?, scales(&codes)?, zeros(&codes)?);
            let (low, high) = packing.range();
            for (r, row) in host.chunks(features).enumerate() {
                let most = row.iter().fold(0f32, |m, v| m.max(if packing.symmetric { v.abs() } else { *v }));
                let least = if packing.symmetric { 0.0 } else { row.iter().fold(0f32, |m, v| m.min(*v)) };
                let wanted = f16::from_f32((most - least) / high as f32);
                let wanted = if wanted == f16::ZERO { f16::ONE } else { wanted };
                assert_eq!(scale[r].to_bits(), wanted.to_bits(), "{packing:?}, row {r} of {features}");
                let step = wanted.to_f32();
                let base = if packing.symmetric { 0 } else { (-least / step).round_ties_even().min(high as f32) as i64 };
                if let Some(zero) = &zero {
                    assert_eq!(i64::from(zero[r]), base, "{packing:?}");
                }
                for (c, v) in row.iter().enumerate() {
                    let code = ((v / step).round_ties_even() as i64 + base).clamp(i64::from(low), i64::from(high)) - base;
                    assert_eq!(got[r * features + c], code, "{packing:?}, row {r} of {features}, {v} by {step}");
                    // Half a step, and half a step of the code of 0 at either end.
                    let off = (f64::from(*v) - code as f64 * f64::from(step)).abs();
                    let limit = if packing.symmetric { 0.502 } else { 1.01 };
                    assert!(off <= limit * f64::from(step) + 1e-6, "{packing:?}: {v} is {off} off, a step being {step}");
                }
            }
            let row = (features * packing.bits as usize).div_ceil(8) + 2 + usize::from(!packing.symmetric);
            assert_eq!(codes.bytes(), 30 * row, "{packing:?}");
            let stands_for: Vec<f32> = numbers(&codes)?.into_iter().map(|v| v as f32).collect();
            assert_eq!(codes.dequantize(DType::F32).to_vec::<f32>()?, stands_for, "{packing:?}");
            let again = TokenCodes::new(packing, features, codes.codes(), codes.scale(), codes.zero_point())?;
            assert_eq!(numbers(&again)?, numbers(&codes)?);
        }
    }
    Ok(())
}
#[test]
fn tokens_that_join_one_by_one_are_those_that_come_at_once() -> Result<()> {
    Device::reference().make_current();
    let mut draw = Draw(5);
    for packing in PACKINGS {
        let x = draw.rows(&[2, 3, 9, 7]);
        let whole = TokenCodes::round(&x, packing)?;
        let mut grown = TokenCodes::round(&x.narrow(2, 0, 2), packing)?.extended(3)?;
        assert_eq!(grown.tokens(), 5);
        for (start, len) in [(2, 1), (3, 2), (5, 1), (6, 3)] {
            if start + len > grown.tokens() {
                grown = grown.extended(6)?;
            }
            grown = grown.updated(start, &TokenCodes::round(&x.narrow(2, start, len), packing)?)?;
        }
        let first = grown.narrow(0, 9)?;
        assert_eq!(centered(&first)?, centered(&whole)?, "{packing:?}");
        assert_eq!(scales(&first)?, scales(&whole)?, "{packing:?}");
        let q = draw.rows(&[2, 3, 2, 7]);
        let of = |codes: &TokenCodes| {
            let options = QuantizedAttentionOptions { tokens: Some(9), is_causal: true, ..Default::default() };
            quantized_attention(&q, codes, codes, &options).to_vec::<f32>()
        };
        assert!(grown.tokens() > 9);
        assert_eq!(of(&grown)?, of(&whole)?, "{packing:?}");
    }
    Ok(())
}

/// Attention in f64 of one row of q over numbers, `seen` says which keys take part.
fn attend(q: &[f64], k: &[f64], v: &[f64], ev: usize, scale: f64, add: impl Fn(usize) -> Option<f64>) -> Vec<f64> {
    let e = q.len();
    let scores: Vec<Option<f64>> = (0..k.len() / e).map(|j| add(j).map(|more| more + scale * (0..e).map(|c| q[c] * k[j * e + c]).sum::<f64>())).collect();
    let most = scores.iter().flatten().fold(f64::NEG_INFINITY, |m, s| m.max(*s));
    let sum: f64 = scores.iter().flatten().map(|s| (s - most).exp()).sum();
    let mut out = vec![0.0; ev];
    for (j, s) in scores.iter().enumerate() {
        if let Some(s) = s.filter(|s| s.is_finite()) {
            (0..ev).for_each(|c| out[c] += (s - most).exp() / sum * v[j * ev + c]);
        }
    }
    out
}
#[test]
fn attention_over_codes_is_that_of_the_numbers_they_stand_for() -> Result<()> {
    Device::reference().make_current();
    for seed in 0..120 {
        let mut draw = Draw(1000 + seed);
        let packing = draw.pick(&PACKINGS);
        let (batch, shared, ratio) = (draw.pick(&[1usize, 1, 2]), draw.pick(&[1usize, 2, 3]), draw.pick(&[1usize, 1, 2, 4]));
        let (queries, keys) = (draw.pick(&[1usize, 1, 2, 5]), draw.pick(&[1usize, 3, 7, 20]));
        let (e, ev) = (draw.pick(&[1usize, 4, 7, 32]), draw.pick(&[1usize, 5, 16]));
        let (causal, masks) = (draw.below(2) == 0, draw.below(3));
        let tokens = draw.pick(&[keys, keys, keys.div_ceil(2)]);
        let dtype = draw.pick(&[DType::F32, DType::F32, DType::F16, DType::BF16]);
        let heads = shared * ratio;
        let q = (draw.rows(&[batch, heads, queries, e]) * 0.2).cast(dtype);
        let (k, v) =
            (TokenCodes::round(&(draw.rows(&[batch, shared, keys, e]) * 0.2), packing)?, TokenCodes::round(&draw.rows(&[batch, shared, keys, ev]), packing)?);
        let scale = (draw.below(2) == 0).then_some(0.7);
        // Of each batch and key; or of each head and query.
        let flags: Vec<bool> = (0..batch * keys).map(|_| draw.below(3) > 0).collect();
        let added: Vec<f32> = (0..heads * queries * keys).map(|_| draw.next()).collect();
        let mask = match masks {
            1 => Some(Tensor::from_vec(flags.clone(), [batch, 1, 1, keys])),
            2 => Some(Tensor::from_vec(added.clone(), [heads, queries, keys])),
            _ => None,
        };
        let options = QuantizedAttentionOptions { tokens: Some(tokens), is_causal: causal, mask: mask.as_ref(), scale };
        let y = quantized_attention(&q, &k, &v, &options);
        assert_eq!((y.dtype()?, &y.shape()?[..]), (dtype, &[batch, heads, queries, ev][..]));
        let got = y.cast(DType::F32).to_vec::<f32>()?;
        let (qs, ks, vs) = (q.cast(DType::F64).to_vec::<f64>()?, numbers(&k)?, numbers(&v)?);
        let factor = scale.unwrap_or(1.0 / (e as f64).sqrt());
        for (row, got) in got.chunks(ev).enumerate() {
            let (b, h, i) = (row / (heads * queries), row / queries % heads, row % queries);
            let at = b * shared + h / ratio;
            let seen = |j: usize| {
                let known = j < tokens && (!causal || j + queries <= tokens + i);
                let known = known && (masks != 1 || flags[b * keys + j]);
                known.then(|| if masks == 2 { f64::from(added[(h * queries + i) * keys + j]) } else { 0.0 })
            };
            let want = attend(&qs[row * e..][..e], &ks[at * keys * e..][..keys * e], &vs[at * keys * ev..][..keys * ev], ev, factor, seen);
            let size = vs.iter().fold(1e-3, |m: f64, v| m.max(v.abs()));
            let near = match dtype {
                DType::F32 => 2e-5,
                DType::F16 => 1e-3,
                _ => 8e-3,
            };
            for (got, want) in got.iter().zip(&want) {
                assert!((f64::from(*got) - want).abs() <= near * size, "seed {seed}, {packing:?}, row {row}: {got} for {want}");
            }
        }
    }
    Ok(())
}
#[test]
fn q_has_the_gradient_of_attention_over_the_numbers() -> Result<()> {
    Device::reference().make_current();
    let mut draw = Draw(8);
    for packing in PACKINGS {
        for causal in [false, true] {
            let (k, v) = (TokenCodes::round(&(draw.rows(&[2, 6, 5]) * 0.1), packing)?, TokenCodes::round(&draw.rows(&[2, 6, 3]), packing)?);
            let (q, pull) = ((draw.rows(&[2, 6, 5]) * 0.1).tracked(), draw.rows(&[2, 6, 3]));
            let options = QuantizedAttentionOptions { is_causal: causal, ..Default::default() };
            let of_codes = (quantized_attention(&q, &k, &v, &options) * &pull).sum(..).backward()?;
            let plain = AttentionOptions { is_causal: causal, ..Default::default() };
            let of_numbers = scaled_dot_product_attention(&q, &k.dequantize(DType::F32), &v.dequantize(DType::F32), &plain);
            let of_numbers = (of_numbers * &pull).sum(..).backward()?;
            let (Some(got), Some(want)) = (of_codes.get(&q), of_numbers.get(&q)) else { panic!("q has no gradient") };
            let size = want.abs().max().item::<f32>()?;
            assert!(size > 0.0 && (got - want).abs().max().item::<f32>()? <= 2e-5 * size.max(1.0), "{packing:?}");
        }
    }
    Ok(())
}
#[test]
fn what_is_no_number_is_seen_by_those_who_see_it() -> Result<()> {
    Device::reference().make_current();
    for packing in PACKINGS {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e9] {
            // The last of three tokens: no scale in f16 holds it, or it is no number.
            let x = Tensor::from_vec(vec![1.0, 2.0, 3.0, -1.0, 0.5, bad], [1, 3, 2]);
            let codes = TokenCodes::round(&x, packing)?;
            let options = QuantizedAttentionOptions { is_causal: true, ..Default::default() };
            let q = Tensor::from_vec(vec![0.5f32, 0.25, 0.5, 0.25, 0.5, 0.25], [1, 3, 2]);
            let y = quantized_attention(&q, &codes, &codes, &options).to_vec::<f32>()?;
            assert!(y[..4].iter().all(|v| v.is_finite()), "{packing:?} {bad}: {y:?}");
            assert!(y[4..].iter().all(|v| v.is_nan()), "{packing:?} {bad}: {y:?}");
        }
    }
    Ok(())
}
#[test]
fn wrong_calls_are_told() -> Result<()> {
    Device::reference().make_current();
    let packing = PACKINGS[0];
    let codes = TokenCodes::round(&Tensor::ones([1, 2, 3, 4]), packing)?;
    let told = |t: Tensor| t.error().map(|e| e.to_string()).unwrap_or_default();
    let refused = |r: Result<TokenCodes>| r.err().map(|e| e.to_string()).unwrap_or_default();
    let with = |q: &Tensor, options: &QuantizedAttentionOptions<'_>| told(quantized_attention(q, &codes, &codes, options));
    let plain = QuantizedAttentionOptions::default();
    let q = Tensor::ones([1, 2, 1, 4]);
    for (text, part) in [
        (with(&q.cast(DType::F64), &plain), "compute in f32"),
        (with(&Tensor::ones([1, 2, 1, 5]), &plain), "as many features as the keys have codes"),
        (with(&Tensor::ones([1, 3, 1, 4]), &plain), "in equal groups"),
        (with(&Tensor::ones([2, 1, 4]), &plain), "equally many axes"),
        (with(&q, &QuantizedAttentionOptions { tokens: Some(4), ..plain }), "4 tokens are more than the 3 keys"),
        (with(&q, &QuantizedAttentionOptions { mask: Some(&Tensor::ones([1, 2, 1, 2])), ..plain }), "broadcast to [.., queries, keys]"),
        (with(&q, &QuantizedAttentionOptions { mask: Some(&Tensor::ones([3]).cast(DType::I32)), ..plain }), "a mask is bool"),
        (told(quantized_attention(&q, &codes, &TokenCodes::round(&Tensor::ones([1, 2, 3, 4]), PACKINGS[2])?, &plain)), "one packing"),
        (told(quantized_attention(&q, &codes, &TokenCodes::round(&Tensor::ones([1, 2, 2, 4]), packing)?, &plain)), "as many keys as values"),
        (told(codes.dequantize(DType::I32)), "numbers are floats"),
        (refused(TokenCodes::round(&Tensor::ones([2, 3]).cast(DType::I32), packing)), "numbers are floats"),
        (refused(TokenCodes::round(&Tensor::ones([3]), packing)), "[.., tokens, features]"),
        (refused(TokenCodes::round(&Tensor::ones([2, 4]), Packing { bits: 3, ..packing })), "8 or 4 bits"),
        (refused(TokenCodes::round(&Tensor::ones([2, 4]), Packing { group: Some(2), ..packing })), "8 or 4 bits"),
        (refused(TokenCodes::new(packing, 5, codes.codes(), codes.scale(), None)), "codes of [1, 2, 3, 5]"),
        (refused(TokenCodes::new(PACKINGS[1], 4, codes.codes(), codes.scale(), None)), "codes are u8"),
        (refused(codes.updated(2, &TokenCodes::round(&Tensor::ones([1, 2, 2, 4]), packing)?)), "index"),
        (refused(codes.updated(0, &TokenCodes::round(&Tensor::ones([1, 2, 1, 4]), PACKINGS[1])?)), "among codes of"),
        (refused(codes.updated(0, &TokenCodes::round(&Tensor::ones([2, 2, 1, 4]), packing)?)), "update_slice"),
    ] {
        assert!(text.contains(part), "{part}: {text:?}");
    }
    Ok(())
}
