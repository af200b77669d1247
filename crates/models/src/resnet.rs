//! Residual networks for images (He et al., "Deep residual learning for image recognition", 2016), as torchvision has them:
//! version 1.5 with the stride in the 3x3 convolution, wide ones (Zagoruyko and Komodakis 2016), ResNeXt (Xie et al. 2017).
use crate::{LoadWeights, Naming};
use adamant_core::{
    Error, ErrorKind, Result, Tensor,
    functional::{MaxPoolOptions, Padding, Sizes},
};
use adamant_nn::{
    BatchNorm2d, Conv2d, ConvOptions, Linear, MaxPool2d, Module, Sequential, Walk,
    init::{self, Fan, Nonlinearity},
};

/// The block that a network is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[doc(alias("BasicBlock", "Bottleneck"))]
pub enum ResidualKind {
    /// two 3x3 convolutions
    Basic,
    /// 1x1, 3x3, 1x1, the last one four times as wide
    Bottleneck,
}
impl ResidualKind {
    /// How much wider than its 3x3 convolution (of plain width) a block's output is.
    fn expansion(self) -> usize {
        match self {
            ResidualKind::Basic => 1,
            ResidualKind::Bottleneck => 4,
        }
    }
}
/// Options of a residual network; the defaults are torchvision's.
#[derive(Clone, Debug)]
pub struct ResNetOptions {
    /// number of outputs
    pub classes: usize,
    /// channels of the input
    pub in_channels: usize,
    /// channels of the first stage; each of the others has twice as many as the one before
    pub width: usize,
    /// groups of the 3x3 convolutions (bottlenecks only)
    pub groups: usize,
    /// channels of a group where a stage has 64 of them (bottlenecks only)
    pub width_per_group: usize,
    /// do residual branches start as nothing (Goyal et al. 2017, section 5.1)?
    pub zero_init_residual: bool,
    /// for each of the last three stages: dilated convolutions in place of its stride
    pub replace_stride_with_dilation: [bool; 3],
    /// for small images: a 3x3 convolution of stride 1 and no pooling before the first stage (He et al. 2016, section 4.2)
    pub small_images: bool,
}
impl Default for ResNetOptions {
    fn default() -> ResNetOptions {
        ResNetOptions {
            classes: 1000,
            in_channels: 3,
            width: 64,
            groups: 1,
            width_per_group: 64,
            zero_init_residual: false,
            replace_stride_with_dilation: [false; 3],
            small_images: false,
        }
    }
}

/// A convolution without a bias, padded so that stride alone changes the size, with He's normal initial values.
#[track_caller]
fn conv(from: usize, to: usize, kernel: usize, stride: usize, dilation: usize, groups: usize) -> Result<Conv2d> {
    let padding = Padding::Zeros(Sizes::from(dilation * (kernel - 1) / 2));
    let options = ConvOptions { stride: stride.into(), padding, dilation: dilation.into(), groups, bias: false, ..Default::default() };
    let conv = Conv2d::with(from, to, kernel, options)?;
    conv.weight.set(&init::kaiming_normal(conv.weight.meta().shape, Fan::Out, Nonlinearity::Relu)?)?;
    Ok(conv)
}

#[derive(Module)]
struct ResidualBlock {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    conv2: Conv2d,
    bn2: BatchNorm2d,
    conv3: Option<Conv2d>,
    bn3: Option<BatchNorm2d>,
    downsample: Option<Sequential>,
}
impl Module for ResidualBlock {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut y = self.bn1.forward(&self.conv1.forward(x)?)?.relu();
        y = self.bn2.forward(&self.conv2.forward(&y)?)?;
        if let (Some(conv3), Some(bn3)) = (&self.conv3, &self.bn3) {
            y = bn3.forward(&conv3.forward(&y.relu())?)?;
        }
        match &self.downsample {
            Some(shortcut) => (y + shortcut.forward(x)?).relu().ok(),
            None => (y + x).relu().ok(),
        }
    }
}
/// What the next block starts from while a network is built.
struct Growing<'a> {
    kind: ResidualKind,
    options: &'a ResNetOptions,
    channels: usize,
    dilation: usize,
}
impl Growing<'_> {
    #[track_caller]
    fn block(&mut self, width: usize, stride: usize, dilation: usize) -> Result<ResidualBlock> {
        let (from, to) = (self.channels, width * self.kind.expansion());
        self.channels = to;
        let downsample =
            if stride != 1 || from != to { Some(Sequential::new().add(conv(from, to, 1, stride, 1, 1)?).add(BatchNorm2d::new(to)?)) } else { None };
        match self.kind {
            ResidualKind::Basic => Ok(ResidualBlock {
                conv1: conv(from, to, 3, stride, 1, 1)?,
                bn1: BatchNorm2d::new(to)?,
                conv2: conv(to, to, 3, 1, 1, 1)?,
                bn2: BatchNorm2d::new(to)?,
                conv3: None,
                bn3: None,
                downsample,
            }),
            ResidualKind::Bottleneck => {
                let inner = width * self.options.width_per_group / 64 * self.options.groups;
                Ok(ResidualBlock {
                    conv1: conv(from, inner, 1, 1, 1, 1)?,
                    bn1: BatchNorm2d::new(inner)?,
                    conv2: conv(inner, inner, 3, stride, dilation, self.options.groups)?,
                    bn2: BatchNorm2d::new(inner)?,
                    conv3: Some(conv(inner, to, 1, 1, 1, 1)?),
                    bn3: Some(BatchNorm2d::new(to)?),
                    downsample,
                })
            }
        }
    }
    /// A stage: the first block has the stride, or in its place the later ones a dilation.
    #[track_caller]
    fn stage(&mut self, width: usize, blocks: usize, stride: usize, dilate: bool) -> Result<Vec<ResidualBlock>> {
        let before = self.dilation;
        if dilate {
            self.dilation *= stride;
        }
        let first = self.block(width, if dilate { 1 } else { stride }, before)?;
        let dilation = self.dilation;
        let rest = (1..blocks).map(|_| self.block(width, 1, dilation));
        std::iter::once(Ok(first)).chain(rest).collect()
    }
}

/// A residual network: images `[batch, channels, height, width]` to logits `[batch, classes]`. Parameters and buffers have
/// torchvision's names (`layer1.0.conv1.weight`, `layer1.0.bn1.running_mean`, `fc.bias`).
///
/// ```
/// # use adamant_core::{Result, Tensor};
/// # use adamant_models::{LoadWeights, ResNet, ResNetOptions};
/// # use adamant_nn::{Module, Walk};
/// # adamant_core::Device::reference().make_current();
/// // With `width` and `classes` left out, torchvision's ResNet-18 of ImageNet.
/// let model = ResNet::resnet18(ResNetOptions { width: 4, classes: 10, ..Default::default() })?;
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("resnet18.safetensors");
/// # adamant_formats::safetensors::save(&file, model.state_dict(), &Default::default())?;
/// // In Python: safetensors.torch.save_file(torchvision.models.resnet18(...).state_dict(), file)
/// model.load_path(&file)?;
/// model.eval();
/// let logits = model.forward(&Tensor::ones([1, 3, 32, 32]))?;
/// assert_eq!(logits.dims()?, [1, 10]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Module)]
pub struct ResNet {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    maxpool: Option<MaxPool2d>,
    layer1: Vec<ResidualBlock>,
    layer2: Vec<ResidualBlock>,
    layer3: Vec<ResidualBlock>,
    layer4: Vec<ResidualBlock>,
    fc: Linear,
}
macro_rules! depths {
    ($($name:ident $kind:ident $layers:expr;)*) => { $(
        #[doc = concat!("[`ResNet::new`] of `ResidualKind::", stringify!($kind), "` with ", stringify!($layers), " blocks, as torchvision's function of that name.")]
        ///
        /// # Errors
        /// As [`ResNet::new`].
        #[track_caller]
        pub fn $name(options: ResNetOptions) -> Result<ResNet> {
            ResNet::new(ResidualKind::$kind, $layers, &options)
        }
    )* };
}
impl ResNet {
    depths! {
        resnet18 Basic [2, 2, 2, 2];
        resnet34 Basic [3, 4, 6, 3];
        resnet50 Bottleneck [3, 4, 6, 3];
        resnet101 Bottleneck [3, 4, 23, 3];
        resnet152 Bottleneck [3, 8, 36, 3];
    }
    /// A network of four stages with so many blocks each. Convolutions start normal by He's rule for what goes out, the rest as
    /// the layers do.
    ///
    /// # Errors
    /// A stage without blocks; groups, another width or dilation for basic blocks; groups that do not divide the channels.
    #[track_caller]
    pub fn new(kind: ResidualKind, blocks: [usize; 4], options: &ResNetOptions) -> Result<ResNet> {
        check(kind, blocks, options)?;
        let width = options.width;
        let stem = if options.small_images { conv(options.in_channels, width, 3, 1, 1, 1)? } else { conv(options.in_channels, width, 7, 2, 1, 1)? };
        let maxpool = MaxPoolOptions { stride: Some(2.into()), padding: 1.into(), ..MaxPoolOptions::new(3) };
        let [dilate2, dilate3, dilate4] = options.replace_stride_with_dilation;
        let mut growing = Growing { kind, options, channels: width, dilation: 1 };
        let model = ResNet {
            conv1: stem,
            bn1: BatchNorm2d::new(width)?,
            maxpool: (!options.small_images).then(|| MaxPool2d::with(maxpool)),
            layer1: growing.stage(width, blocks[0], 1, false)?,
            layer2: growing.stage(2 * width, blocks[1], 2, dilate2)?,
            layer3: growing.stage(4 * width, blocks[2], 2, dilate3)?,
            layer4: growing.stage(8 * width, blocks[3], 2, dilate4)?,
            fc: Linear::new(growing.channels, options.classes)?,
        };
        if options.zero_init_residual {
            for block in [&model.layer1, &model.layer2, &model.layer3, &model.layer4].into_iter().flatten() {
                let (_, weight) = &block.bn3.as_ref().unwrap_or(&block.bn2).named_parameters()[0];
                weight.set(&init::zeros(weight.meta().shape)?)?;
            }
        }
        Ok(model)
    }
    /// The outputs of the four stages, each half as high and wide as the one before: `[batch, channels, height, width]`.
    ///
    /// # Errors
    /// As `forward`.
    #[track_caller]
    pub fn stages(&self, x: &Tensor) -> Result<[Tensor; 4]> {
        let mut x = self.bn1.forward(&self.conv1.forward(x)?)?.relu();
        if let Some(pool) = &self.maxpool {
            x = pool.forward(&x)?;
        }
        let [one, two, three, four] = [&self.layer1, &self.layer2, &self.layer3, &self.layer4];
        let one = one.iter().try_fold(x, |x, block| block.forward(&x))?;
        let two = two.iter().try_fold(one.clone(), |x, block| block.forward(&x))?;
        let three = three.iter().try_fold(two.clone(), |x, block| block.forward(&x))?;
        let four = four.iter().try_fold(three.clone(), |x, block| block.forward(&x))?;
        Ok([one, two, three, four])
    }
}
#[track_caller]
fn check(kind: ResidualKind, blocks: [usize; 4], options: &ResNetOptions) -> Result<()> {
    let refuse = |text: &str| Err(Error::new("ResNet", ErrorKind::Argument(text.into())));
    if blocks.contains(&0) {
        return refuse("a stage needs a block");
    }
    let plain = options.groups == 1 && options.width_per_group == 64 && !options.replace_stride_with_dilation.contains(&true);
    if kind == ResidualKind::Basic && !plain {
        return refuse("basic blocks have no groups, no other width per group and no dilation; bottlenecks have");
    }
    Ok(())
}
impl Module for ResNet {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let [.., last] = self.stages(x)?;
        self.fc.forward(&last.mean([2, 3]))
    }
}
impl LoadWeights for ResNet {
    /// Files of old versions of PyTorch do not count batches, and those of a network trained on several devices have
    /// `module.` before every name.
    fn naming(&self) -> Naming {
        Naming { prefix: "module.", optional: |name| name.ends_with(".num_batches_tracked"), ..Naming::EXACT }
    }
}
