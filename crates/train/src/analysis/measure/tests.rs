//! How times are shared out, and what bounds a layer.
use super::*;
use crate::analysis::LayerBound;
use adamant_backend_cpu as _;
use adamant_nn::{BatchNorm2d, Conv2d, Linear, Relu, Sequential, Walk};

/// The kernels of one pass, and what was looked at.
fn passed(model: &dyn Module, shape: &[usize]) -> (Looked, Vec<Kernel>) {
    let device = Device::cpu().unwrap();
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    device.scoped(|| {
        let (looked, x) = (look(model, shape, DType::F32).unwrap(), Tensor::ones(shape));
        (looked, rounds(&ModelAnalyzer::new().passes(1), model, &x, device).unwrap().0.swap_remove(0).kernels)
    })
}
fn linears(n: usize) -> Sequential {
    Device::cpu().unwrap().scoped(|| {
        let mut net = Sequential::new();
        (0..n).for_each(|k| net.push(&k.to_string(), Box::new(Linear::new(8, 8).unwrap())));
        net
    })
}
const US: fn(u64) -> Duration = Duration::from_micros;

#[test]
fn a_fused_kernel_whose_time_only_its_last_layer_has() {
    let net = Device::cpu().unwrap().scoped(|| Sequential::new().add(Conv2d::new(2, 4, 3).unwrap()).add(BatchNorm2d::new(4).unwrap()).add(Relu::new()));
    net.eval();
    let (looked, mut kernels) = passed(&net, &[1, 2, 9, 9]);
    assert!(kernels.iter().all(|k| (k.layers.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9), "{kernels:?}");
    assert_eq!(kernels.iter().map(|k| k.layers.len()).collect::<Vec<_>>(), [3], "the three are one kernel here");
    kernels.iter_mut().for_each(|k| k.time = US(1000));
    let all = US(1000) * kernels.len() as u32;
    let (timing, layers) = share_out(&looked, &[Round { plain: all, profiled: all + US(7), kernels }], 0);
    assert!(layers.iter().all(|l| l.kernels >= 1), "{layers:?}");
    // 2 * 18 + 1 operations of the convolution, 4 of the normalisation (and 3 for each channel), 1 of the relu, for each of 49 places.
    let (conv, norm, relu) = (37.0 * 196.0, 4.0 * 196.0 + 12.0, 196.0);
    let sum = conv + norm + relu;
    for (l, cost) in layers.iter().zip([conv, norm, relu]) {
        assert!((l.time.as_secs_f64() / 1e-3 - cost / sum).abs() < 0.001, "{layers:?}");
    }
    assert!(timing.between.abs_diff(US(7)) < US(1), "{timing:?}");
}
#[test]
fn a_slow_layer_wherever_it_stands_or_a_pass_that_was_disturbed() {
    let net = linears(6);
    let (looked, kernels) = passed(&net, &[4, 8]);
    for slow in 0..6 {
        // In most of the passes another layer is held up by something else on the machine.
        let rounds: Vec<Round> = (0..40)
            .map(|n| {
                let mut kernels = kernels.clone();
                for k in &mut kernels {
                    let layer: usize = k.layers[0].0.parse().unwrap();
                    let disturbed = n % 4 != 0 && layer == (slow + n) % 6;
                    k.time = US(if disturbed {
                        900
                    } else if layer == slow {
                        50
                    } else {
                        10
                    });
                }
                let all: Duration = kernels.iter().map(|k| k.time).sum();
                Round { plain: all + US(5), profiled: all + US(6), kernels }
            })
            .collect();
        let (timing, layers) = share_out(&looked, &rounds, 0);
        for (k, l) in layers.iter().enumerate() {
            assert_eq!((l.time, l.kernels), (US(if k == slow { 50 } else { 10 }), 1), "{layers:?}");
        }
        assert_eq!((timing.forward, timing.between, timing.passes), (US(105), US(6), 40));
        let mut analysis = Analysis::of(&looked, false);
        for (l, times) in analysis.layers.iter_mut().zip(layers) {
            (l.times, l.bound) = (Some(times), LayerBound::Memory);
        }
        analysis.timing = Some(timing);
        assert_eq!(analysis.find_bottlenecks()[0].layer, slow.to_string());
        assert!((analysis.excess().unwrap() - 1.0 / 105.0).abs() < 1e-9);
    }
}
#[test]
fn a_roof_that_is_no_number() {
    let device = Device::cpu().unwrap();
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let once = roof(device, DType::F32).unwrap();
    assert!(once.gflops.is_finite() && once.gflops > 0.0 && once.gbytes.is_finite() && once.gbytes > 0.0 && once.launch > Duration::ZERO, "{once:?}");
    assert_eq!(roof(device, DType::F32).unwrap(), once, "it is measured once");
}
