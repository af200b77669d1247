//! Residual networks as such: how many parameters, which names, what is refused.
#![allow(clippy::unwrap_used, clippy::panic)]

use adamant_core::{Device, Result, Tensor};
use adamant_models::{ResNet, ResNetOptions, ResidualKind};
use adamant_nn::{Walk, init};

fn on_reference<R>(f: impl FnOnce() -> R) -> R {
    Device::reference().scoped(f)
}
#[test]
fn depths_have_as_many_parameters_as_torchvisions() {
    type Build = fn(ResNetOptions) -> Result<ResNet>;
    let cases: [(Build, usize); 5] = [
        (ResNet::resnet18, 11_689_512),
        (ResNet::resnet34, 21_797_672),
        (ResNet::resnet50, 25_557_032),
        (ResNet::resnet101, 44_549_160),
        (ResNet::resnet152, 60_192_808),
    ];
    on_reference(|| {
        for (build, parameters) in cases {
            let model = init::shapes_only(|| build(ResNetOptions::default())).unwrap();
            assert_eq!(model.parameter_count(), parameters);
        }
        // resnext50_32x4d and wide_resnet50_2
        for (groups, width_per_group, parameters) in [(32, 4, 25_028_904), (1, 128, 68_883_240)] {
            let options = ResNetOptions { groups, width_per_group, ..Default::default() };
            assert_eq!(init::shapes_only(|| ResNet::resnet50(options)).unwrap().parameter_count(), parameters);
        }
    });
}
#[test]
fn residual_branches_may_start_as_nothing() {
    on_reference(|| {
        let plain = ResNetOptions { width: 2, classes: 3, small_images: true, ..Default::default() };
        for zero_init_residual in [false, true] {
            let model = ResNet::new(ResidualKind::Basic, [1; 4], &ResNetOptions { zero_init_residual, ..plain.clone() }).unwrap();
            model.eval();
            let image = Tensor::rand([1, 3, 4, 4], &adamant_core::Rng::new(1).unwrap());
            let [first, ..] = model.stages(&image).unwrap();
            // The first stage alone has no convolution in its shortcut.
            let stem: Vec<(String, Tensor)> = model.state_dict().into_iter().filter(|(n, _)| n == "conv1.weight").collect();
            let conv = adamant_core::functional::ConvOptions { padding: 1.into(), ..Default::default() };
            let stem = adamant_core::functional::conv2d(&image, &stem[0].1, None, &conv).relu();
            assert_eq!(first.allclose(&stem, 1e-3, 1e-3).unwrap(), zero_init_residual);
        }
    });
}
#[test]
fn what_torchvision_refuses_is_refused() {
    let plain = ResNetOptions { width: 2, ..Default::default() };
    let refused = |kind, blocks, options: ResNetOptions| on_reference(|| ResNet::new(kind, blocks, &options).err().unwrap().to_string());
    for options in [
        ResNetOptions { groups: 2, ..plain.clone() },
        ResNetOptions { width_per_group: 32, ..plain.clone() },
        ResNetOptions { replace_stride_with_dilation: [false, false, true], ..plain.clone() },
    ] {
        assert!(refused(ResidualKind::Basic, [1; 4], options).contains("basic blocks have no groups"));
    }
    assert!(refused(ResidualKind::Basic, [1, 0, 1, 1], plain).contains("a stage needs a block"));
}
