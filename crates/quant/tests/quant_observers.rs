//! Observers against the answers of PyTorch, NumPy and ONNX Runtime that `cargo xtask quant observers --record` has written, and
//! against plain computations over all values.
use adamant_conformance::random::Random;
use adamant_core::Result;
use adamant_quant::observe::{ChannelObserver, CodeRange, Observation, Observer, entropy_threshold};
use serde_json::Value;

/// Lines of JSON: values in batches with what the peers say of them, and counts with ONNX Runtime's threshold.
const RECORDED: &str = include_str!("goldens/observers.jsonl");
const CODES: [(&str, CodeRange); 4] = [
    ("u8", CodeRange::U8),
    ("i8", CodeRange::I8),
    ("i8-whole", CodeRange { low: -128, high: 127, symmetric: true }),
    ("i8-affine", CodeRange { low: -128, high: 127, symmetric: false }),
];

fn recorded() -> Vec<Value> {
    RECORDED.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
fn floats(of: &Value) -> Vec<f64> {
    of.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}
/// Shape and values of each batch.
fn batches(case: &Value) -> Vec<(Vec<usize>, Vec<f32>)> {
    let of = |batch: &Value| {
        let shape = floats(&batch["shape"]).iter().map(|n| *n as usize).collect();
        (shape, floats(&batch["values"]).iter().map(|v| *v as f32).collect())
    };
    case["batches"].as_array().unwrap().iter().map(of).collect()
}
fn bits(codes: &[(f32, i32)]) -> Vec<(u32, i64)> {
    codes.iter().map(|(scale, zero)| (scale.to_bits(), i64::from(*zero))).collect()
}
fn theirs(of: &Value) -> Vec<(u32, i64)> {
    let scales = floats(&of[0]).into_iter().map(|s| (s as f32).to_bits());
    scales.zip(of[1].as_array().unwrap().iter().map(|z| z.as_i64().unwrap())).collect()
}

#[test]
fn scales_and_zero_points_that_are_not_pytorchs_to_the_bit() -> Result<()> {
    let mut compared = 0;
    for case in recorded().iter().filter(|case| !case["batches"].is_null()) {
        let batches = batches(case);
        let axis = case["axis"].as_u64().unwrap() as usize;
        let mut hows = vec![("minmax".to_string(), true, Observation::MinMax), ("histogram".to_string(), false, Observation::Histogram)];
        hows.extend(floats(&case["rates"]).iter().map(|rate| (format!("moving-{rate}"), true, Observation::MovingAverage { rate: *rate })));
        for (key, by_channel, how) in hows {
            let mut whole = Observer::new(how)?;
            let mut channels = ChannelObserver::new(how, batches[0].0[axis])?;
            for (shape, values) in &batches {
                whole.see(values)?;
                channels.see(values, shape, axis)?;
            }
            for (name, codes) in CODES {
                assert_eq!(bits(&[whole.codes(codes)?]), theirs(&case["answers"][&key][name]), "{}: {key}, {name}", case["name"]);
                if by_channel {
                    let wanted = theirs(&case["answers"][format!("{key}-channels")][name]);
                    assert_eq!(bits(&channels.codes(codes)?), wanted, "{}: {key} by channel, {name}", case["name"]);
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 400);
    Ok(())
}

#[test]
fn a_percentile_that_is_more_than_a_bin_from_numpys() -> Result<()> {
    let mut compared = 0;
    for case in recorded().iter().filter(|case| !case["batches"].is_null()) {
        for (percent, ends) in floats(&case["percents"]).into_iter().zip(case["answers"]["percentiles"].as_array().unwrap()) {
            let mut observer = Observer::new(Observation::Percentile { percent })?;
            batches(case).iter().try_for_each(|(_, values)| observer.see(values))?;
            let (range, bin) = (observer.range()?, observer.bin_width().unwrap());
            let far = floats(ends).iter().zip([range.0, range.1]).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(far <= bin, "{}, {percent} %: {far:e} of bins of {bin:e}", case["name"]);
            compared += 1;
        }
    }
    assert!(compared > 100);
    // As numpy.percentile: between the two nearest ranks, also where a gap of thousands of bins lies between them.
    let mut values = vec![0.0f32; 999];
    values.push(1000.0);
    let mut observer = Observer::new(Observation::Percentile { percent: 99.9 })?;
    observer.see(&values)?;
    let (wanted, bin) = (1000.0 * (0.9995 * 999.0 - 998.0), observer.bin_width().unwrap());
    assert!((observer.range()?.1 - wanted).abs() <= bin, "{:?}, not {wanted}", observer.range()?);
    Ok(())
}

#[test]
fn a_threshold_that_is_more_than_a_bin_from_onnx_runtimes() {
    let mut compared = 0;
    for case in recorded().iter().filter(|case| !case["counts"].is_null()) {
        let counts = floats(&case["counts"]);
        let (reach, middle) = (entropy_threshold(&counts, case["codes"].as_u64().unwrap() as usize), counts.len() / 2);
        let wanted = floats(&case["threshold"]);
        let ours = [middle as f64 - reach as f64, (middle + reach + 1).min(counts.len()) as f64];
        assert!(ours.iter().zip(&wanted).all(|(a, b)| (a - b).abs() <= 1.0), "{}: {ours:?}, not {wanted:?}", case["name"]);
        compared += 1;
    }
    assert!(compared >= 6);
    // Nothing to count, or fewer bins than steps: the whole histogram.
    assert_eq!([entropy_threshold(&[], 128), entropy_threshold(&[0.0; 10], 128), entropy_threshold(&[0.0; 512], 0)], [0, 5, 0]);
}

/// The squared error of u8 codes over a range.
fn error(values: &[f32], (low, high): (f64, f64)) -> f64 {
    let (low, high) = (low.min(0.0) as f32, high.max(0.0) as f32);
    let scale = ((high - low) / 255.0).max(f32::EPSILON);
    let zero = (-low / scale).round_ties_even();
    let number = |v: f32| f64::from(((v / scale).round_ties_even() + zero).clamp(0.0, 255.0) - zero) * f64::from(scale);
    values.iter().map(|v| (f64::from(*v) - number(*v)).powi(2)).sum()
}
#[test]
fn a_range_with_more_error_than_the_best_of_a_thousand_thresholds() -> Result<()> {
    let random = Random::new(31);
    for round in 0..24u64 {
        let mut random = random.part(round);
        // More values that differ than are kept one by one, in some.
        let n = [300, 5_000, 90_000][round as usize % 3];
        let mut values: Vec<f32> = (0..n)
            .map(|_| {
                let v = (0..4).map(|_| random.unit()).sum::<f64>() - 2.0;
                (match round / 3 % 4 {
                    0 => v,
                    1 => v.max(0.0),
                    2 => v.powi(5) * 40.0,
                    _ => (v * 8.0).round() / 8.0 - 0.1,
                }) as f32
            })
            .collect();
        for _ in 0..random.below(4) {
            values[random.below(n)] = [40.0, -7.0, 300.0][random.below(3)];
        }
        let mut observer = Observer::new(Observation::Mse)?;
        values.chunks(n / 3).try_for_each(|some| observer.see(some))?;
        let (low, high) = values.iter().fold((0f64, 0f64), |(l, h), v| (l.min(f64::from(*v)), h.max(f64::from(*v))));
        let far = high.max(-low);
        let shares = (1..=1000).step_by(if n > 10_000 { 9 } else { 1 }).map(|k| f64::from(k) / 1000.0);
        let best = shares.flat_map(|s| [(low * s, high * s), (low.max(-far * s), high.min(far * s))]).map(|r| error(&values, r)).fold(f64::INFINITY, f64::min);
        let found = error(&values, observer.range()?);
        assert!(found <= 1.01 * best + 1e-12 * n as f64, "{round}: {found:e}, best {best:e}, by {:?} of {:?}", observer.range()?, (low, high));
    }
    Ok(())
}

#[test]
fn what_no_codes_are_found_for_is_said_with_what_to_do() -> Result<()> {
    let all = [
        Observation::MinMax,
        Observation::MovingAverage { rate: 0.1 },
        Observation::Histogram,
        Observation::Percentile { percent: 99.0 },
        Observation::Mse,
        Observation::Entropy,
    ];
    for how in all {
        let mut observer = Observer::new(how)?;
        assert!(observer.range().is_err_and(|e| e.to_string().contains("no values were seen") && e.hint_text().is_some()), "{how:?}");
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let error = observer.see(&[1.0, bad]).unwrap_err();
            assert!(error.to_string().contains("at element 1") && error.hint_text().is_some(), "{how:?}: {error}");
        }
        assert_eq!(observer.seen(), 0, "{how:?}: a batch that is refused is not seen");
        observer.see(&[])?;
        assert_eq!(observer.seen(), 0);
        for constant in [0.0f32, -0.0, 2.5, -3.0, f32::MIN_POSITIVE, 1e-44, -1e-40, 1e30] {
            let mut observer = Observer::new(how)?;
            observer.see(&[constant; 9])?;
            for (_, codes) in CODES {
                let (scale, zero) = observer.codes(codes)?;
                assert!(scale.is_finite() && scale >= f32::EPSILON && (codes.low..=codes.high).contains(&zero), "{how:?} of {constant}: {scale} {zero}");
            }
        }
        observer.see(&[f32::MAX, f32::MIN])?;
        if how != Observation::Mse {
            assert!(observer.unsigned_codes().is_err_and(|e| e.to_string().contains("more than f32 holds")), "{how:?}");
        }
        assert!(observer.codes(CodeRange { low: 5, high: 5, symmetric: false }).is_err_and(|e| e.to_string().contains("5 to 5")), "{how:?}");
        assert!(observer.codes(CodeRange { low: i32::MIN, high: i32::MAX, symmetric: true }).is_err(), "{how:?}");
    }
    let mut channels = ChannelObserver::new(Observation::MinMax, 2)?;
    let refused = |channels: &mut ChannelObserver, values: &[f32], shape: &[usize], axis| channels.see(values, shape, axis).unwrap_err().to_string();
    assert!(refused(&mut channels, &[1.0, f32::NAN], &[1, 2], 1).contains("channel 1"));
    assert!(refused(&mut channels, &[1.0; 6], &[3, 2], 0).contains("axis 0"));
    assert!(refused(&mut channels, &[1.0; 6], &[3, 2], 2).contains("axis 2"));
    assert!(refused(&mut channels, &[1.0; 5], &[3, 2], 1).contains("5 values"));
    assert!(refused(&mut channels, &[], &[usize::MAX, 2], 1).contains("0 values"));
    Ok(())
}
