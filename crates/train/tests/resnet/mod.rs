//! ResNet-18 (He et al. 2016), under torchvision's names.
use adamant_core::{Result, Tensor, functional};
use adamant_nn::*;

pub fn conv(from: usize, to: usize, kernel: usize, stride: usize, padding: usize, groups: usize) -> Conv2d {
    let o = ConvOptions { padding: padding.into(), stride: stride.into(), groups, bias: false, ..Default::default() };
    Conv2d::with(from, to, kernel, o).unwrap()
}
#[derive(Module)]
struct BasicBlock {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    relu: Relu,
    conv2: Conv2d,
    bn2: BatchNorm2d,
    downsample: Option<Sequential>,
}
impl BasicBlock {
    fn new(from: usize, to: usize, stride: usize) -> BasicBlock {
        let norm = || BatchNorm2d::new(to).unwrap();
        let downsample = (from != to || stride != 1).then(|| Sequential::new().add(conv(from, to, 1, stride, 0, 1)).add(norm()));
        BasicBlock { conv1: conv(from, to, 3, stride, 1, 1), bn1: norm(), relu: Relu::new(), conv2: conv(to, to, 3, 1, 1, 1), bn2: norm(), downsample }
    }
}
impl Module for BasicBlock {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.relu.forward(&self.bn1.forward(&self.conv1.forward(x)?)?)?;
        let y = self.bn2.forward(&self.conv2.forward(&y)?)?;
        let x = self.downsample.as_ref().map_or_else(|| Ok(x.clone()), |d| d.forward(x))?;
        self.relu.forward(&(x + y))
    }
}
#[derive(Module)]
pub struct ResNet {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    relu: Relu,
    maxpool: MaxPool2d,
    layer1: Sequential,
    layer2: Sequential,
    layer3: Sequential,
    layer4: Sequential,
    avgpool: AdaptiveAvgPool2d,
    fc: Linear,
}
pub fn resnet18() -> ResNet {
    let layer = |from, to, stride| Sequential::new().add(BasicBlock::new(from, to, stride)).add(BasicBlock::new(to, to, 1));
    ResNet {
        conv1: conv(3, 64, 7, 2, 3, 1),
        bn1: BatchNorm2d::new(64).unwrap(),
        relu: Relu::new(),
        maxpool: MaxPool2d::with(functional::MaxPoolOptions { stride: Some(2.into()), padding: 1.into(), ..functional::MaxPoolOptions::new(3) }),
        layer1: layer(64, 64, 1),
        layer2: layer(64, 128, 2),
        layer3: layer(128, 256, 2),
        layer4: layer(256, 512, 2),
        avgpool: AdaptiveAvgPool2d::new(1),
        fc: Linear::new(512, 1000).unwrap(),
    }
}
impl Module for ResNet {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.maxpool.forward(&self.relu.forward(&self.bn1.forward(&self.conv1.forward(x)?)?)?)?;
        let x = self.layer2.forward(&self.layer1.forward(&x)?)?;
        let x = self.layer4.forward(&self.layer3.forward(&x)?)?;
        self.fc.forward(&self.avgpool.forward(&x)?.flatten(1, -1))
    }
}
