//! The calls that an ordinary user makes, at the sizes of an ordinary user: `--calls ordinary`. A fixed list beside what is
//! drawn, so that what was slow once is looked at in each run.
//!
//! A row is a name, PyTorch's expression, the inputs and the call here. An input that begins with `g` has a gradient.
use super::{CallCase, CallInput, CallLayout, CallStep, Fill, StepCallee};
use adamant::{
    DType, Rng, Tensor,
    functional::{self as f, *},
    nn::{Gru, Lstm, Module, RecurrentOptions},
};
use adamant_conformance::{programs::ProgramArg, registry::Outputs};
use adamant_core::tensor::{FftNorm, Interpolation, ScatterReduce};

/// A row.
struct OrdinaryCall {
    name: &'static str,
    torch: &'static str,
    setup: &'static str,
    inputs: Vec<CallInput>,
    call: OrdinaryCallee,
}
/// How it is called here.
enum OrdinaryCallee {
    Plain(fn(&[Tensor]) -> Vec<Tensor>),
    /// with something that is made once
    Once(fn() -> adamant::Result<Box<dyn Fn(&[Tensor]) -> Vec<Tensor>>>),
}
macro_rules! calls {
    ($($name:literal $torch:literal [$($input:expr),* $(,)?] |$x:ident| $call:expr),* $(,)?) => {
        vec![$(OrdinaryCall {
            name: $name,
            torch: $torch,
            setup: "",
            inputs: vec![$($input),*],
            call: OrdinaryCallee::Plain(|$x| Outputs::outputs($call)),
        }),*]
    };
}

const NORM: FftNorm = FftNorm::Backward;
const MEGA: usize = 1 << 20;

fn input(shape: &[usize], dtype: DType, fill: Fill) -> CallInput {
    CallInput { shape: shape.to_vec(), dtype: dtype.name().into(), layout: CallLayout::Contiguous, fill, seed: 0, leaf: false }
}
/// f32 in [-1, 1).
fn u(shape: &[usize]) -> CallInput {
    within(shape, -1.0, 1.0)
}
fn within(shape: &[usize], low: f64, high: f64) -> CallInput {
    input(shape, DType::F32, Fill::Within(low, high))
}
/// The same, with a gradient.
fn g(shape: &[usize]) -> CallInput {
    CallInput { leaf: true, ..u(shape) }
}
fn of(dtype: DType, shape: &[usize]) -> CallInput {
    input(shape, dtype, Fill::Within(-1.0, 1.0))
}
fn index(shape: &[usize], bound: usize) -> CallInput {
    input(shape, DType::I64, Fill::Below(bound))
}
fn mask(shape: &[usize]) -> CallInput {
    input(shape, DType::Bool, Fill::Whole(0, 1))
}
fn definite(n: usize) -> CallInput {
    input(&[n, n], DType::F32, Fill::Definite)
}
/// Distinct numbers in no order, so that an order of equal ones is not asked for.
fn distinct(shape: &[usize]) -> CallInput {
    input(shape, DType::F32, Fill::Order(2_654_435_761))
}

/// All calls.
pub fn cases() -> Vec<CallCase> {
    rows().into_iter().map(case).collect()
}
fn case(row: OrdinaryCall) -> CallCase {
    let args = (0..row.inputs.len()).map(ProgramArg::Input).collect();
    let grad = row.inputs.iter().any(|i| i.leaf);
    let inputs = row.inputs.into_iter().enumerate().map(|(k, i)| CallInput { seed: 1 + k as u64, ..i }).collect();
    CallCase {
        name: row.name.into(),
        steps: vec![CallStep { function: row.name.into(), torch: row.torch.into(), args }],
        inputs,
        grad,
        compared: !row.name.starts_with("drawn_"),
        setup: row.setup.into(),
    }
}
/// How a call of this list is made.
pub fn callee(name: &str, function: &str) -> Option<StepCallee> {
    let row = rows().into_iter().find(|r| r.name == name && r.name == function)?;
    let count = row.inputs.len();
    let call: Box<dyn Fn(&[Tensor]) -> Vec<Tensor>> = match row.call {
        OrdinaryCallee::Plain(call) => Box::new(call),
        OrdinaryCallee::Once(build) => build().ok()?,
    };
    Some(Box::new(move |args| call(&(0..count).map(|k| args.t(k)).collect::<Vec<_>>())))
}
fn rows() -> Vec<OrdinaryCall> {
    let mut all = transforms();
    all.extend(pictures());
    all.extend(convolutions());
    all.extend(pools());
    all.extend(places());
    all.extend(reductions());
    all.extend(orders());
    all.extend(algebra());
    all.extend(moves());
    all.extend(maps());
    all.extend(norms());
    all.extend(draws());
    all.extend(networks());
    all
}
fn transforms() -> Vec<OrdinaryCall> {
    calls! {
        "fft_64x1024" "torch.fft.fft(pairs(x[0]))" [u(&[64, 1024, 2])] |x| x[0].fft(None, 1, NORM),
        "fft_64x1000" "torch.fft.fft(pairs(x[0]))" [u(&[64, 1000, 2])] |x| x[0].fft(None, 1, NORM),
        "fft_64x1009" "torch.fft.fft(pairs(x[0]))" [u(&[64, 1009, 2])] |x| x[0].fft(None, 1, NORM),
        "fft_65536" "torch.fft.fft(pairs(x[0]))" [u(&[65536, 2])] |x| x[0].fft(None, 0, NORM),
        "rfft_64x1024" "torch.fft.rfft(x[0])" [u(&[64, 1024])] |x| x[0].rfft(None, 1, NORM),
        "rfft_16000" "torch.fft.rfft(x[0])" [u(&[16000])] |x| x[0].rfft(None, 0, NORM),
        "rfft_64x1024_grad" "torch.view_as_real(torch.fft.rfft(x[0]))" [g(&[64, 1024])] |x| x[0].rfft(None, 1, NORM),
        "irfft_64x513" "torch.fft.irfft(pairs(x[0]), 1024)" [u(&[64, 513, 2])] |x| x[0].irfft(Some(1024), 1, NORM),
        "fft2_256x256" "torch.fft.fft2(pairs(x[0]))" [u(&[256, 256, 2])] |x| x[0].fft2(NORM),
        "rfft2_224x224" "torch.fft.rfft2(x[0])" [u(&[3, 224, 224])] |x| x[0].rfft2(NORM),
        "stft_16000" "torch.stft(x[0], 400, 160, window=x[1], center=True, return_complex=True)" [u(&[16000]), within(&[400], 0.1, 1.0)] |x| x[0].stft(400, 160, &x[1], true, NORM),
        "cdist_1000x64" "torch.cdist(x[0], x[1])" [u(&[1000, 64]), u(&[1000, 64])] |x| x[0].cdist(&x[1], 2.0),
        "cdist_500x3" "torch.cdist(x[0], x[1])" [u(&[500, 3]), u(&[500, 3])] |x| x[0].cdist(&x[1], 2.0),
        "cdist_l1_500x16" "torch.cdist(x[0], x[1], 1.0)" [u(&[500, 16]), u(&[500, 16])] |x| x[0].cdist(&x[1], 1.0),
        "pdist_1000x16" "F.pdist(x[0])" [u(&[1000, 16])] |x| x[0].pdist(2.0),
        "cosine_similarity_4096x256" "F.cosine_similarity(x[0], x[1], 1)" [u(&[4096, 256]), u(&[4096, 256])] |x| x[0].cosine_similarity(&x[1], 1, 1e-8),
    }
}
fn resized(x: &Tensor, factor: f64, mode: InterpolateMode) -> Tensor {
    f::interpolate(x, &Resize::Scale(vec![factor]), InterpolateOptions { mode, align_corners: false })
}
fn pictures() -> Vec<OrdinaryCall> {
    calls! {
        "upsample_nearest_2x" "F.interpolate(x[0], scale_factor=2.0, mode='nearest')" [u(&[4, 32, 56, 56])] |x| resized(&x[0], 2.0, InterpolateMode::Nearest),
        "upsample_bilinear_2x" "F.interpolate(x[0], scale_factor=2.0, mode='bilinear')" [u(&[4, 32, 56, 56])] |x| resized(&x[0], 2.0, InterpolateMode::Linear),
        "upsample_bilinear_2x_grad" "F.interpolate(x[0], scale_factor=2.0, mode='bilinear')" [g(&[4, 32, 56, 56])] |x| resized(&x[0], 2.0, InterpolateMode::Linear),
        "upsample_bicubic_2x" "F.interpolate(x[0], scale_factor=2.0, mode='bicubic')" [u(&[1, 3, 224, 224])] |x| resized(&x[0], 2.0, InterpolateMode::Bicubic),
        "interpolate_area_224_to_112" "F.interpolate(x[0], scale_factor=0.5, mode='area')" [u(&[4, 3, 224, 224])] |x| resized(&x[0], 0.5, InterpolateMode::Area),
        "interpolate_linear_1d" "F.interpolate(x[0], scale_factor=2.0, mode='linear')" [u(&[16, 64, 512])] |x| resized(&x[0], 2.0, InterpolateMode::Linear),
        "grid_sample_4x3x112" "F.grid_sample(x[0], x[1], align_corners=False)" [u(&[4, 3, 112, 112]), within(&[4, 112, 112, 2], -0.99, 0.99)] |x| f::grid_sample(&x[0], &x[1], GridSampleOptions::default()),
        "grid_sample_grad" "F.grid_sample(x[0], x[1], align_corners=False)" [g(&[2, 16, 56, 56]), CallInput { leaf: true, ..within(&[2, 56, 56, 2], -0.99, 0.99) }] |x| f::grid_sample(&x[0], &x[1], GridSampleOptions::default()),
        "pixel_shuffle_2" "F.pixel_shuffle(x[0], 2)" [u(&[4, 64, 64, 64])] |x| f::pixel_shuffle(&x[0], 2),
        "pad_constant_2d" "F.pad(x[0], (1, 1, 1, 1))" [u(&[8, 64, 56, 56])] |x| f::pad(&x[0], &[1, 1, 1, 1], PadMode::default()),
        "pad_reflect_2d" "F.pad(x[0], (3, 3, 3, 3), mode='reflect')" [u(&[8, 3, 224, 224])] |x| f::pad(&x[0], &[3, 3, 3, 3], PadMode::Reflect),
        "pad_reflect_2d_grad" "F.pad(x[0], (3, 3, 3, 3), mode='reflect')" [g(&[8, 3, 112, 112])] |x| f::pad(&x[0], &[3, 3, 3, 3], PadMode::Reflect),
        "unfold_3x3" "F.unfold(x[0], 3, padding=1)" [u(&[4, 16, 56, 56])] |x| f::unfold(&x[0], &UnfoldOptions { padding: 1.into(), ..UnfoldOptions::new(3) }),
        "fold_3x3" "F.fold(x[0], (56, 56), 3, padding=1)" [u(&[4, 144, 3136])] |x| f::fold(&x[0], [56, 56], &UnfoldOptions { padding: 1.into(), ..UnfoldOptions::new(3) }),
    }
}
fn conv(stride: usize, padding: usize, groups: usize) -> ConvOptions {
    ConvOptions { stride: stride.into(), padding: Padding::Zeros(padding.into()), groups, ..ConvOptions::default() }
}
fn convolutions() -> Vec<OrdinaryCall> {
    calls! {
        "conv2d_depthwise_3x3" "F.conv2d(x[0], x[1], None, 1, 1, 1, 64)" [u(&[8, 64, 56, 56]), u(&[64, 1, 3, 3])] |x| f::conv2d(&x[0], &x[1], None, &conv(1, 1, 64)),
        "conv2d_depthwise_3x3_grad" "F.conv2d(x[0], x[1], None, 1, 1, 1, 64)" [g(&[8, 64, 56, 56]), g(&[64, 1, 3, 3])] |x| f::conv2d(&x[0], &x[1], None, &conv(1, 1, 64)),
        "conv2d_depthwise_3x3_stride2" "F.conv2d(x[0], x[1], None, 2, 1, 1, 96)" [u(&[4, 96, 56, 56]), u(&[96, 1, 3, 3])] |x| f::conv2d(&x[0], &x[1], None, &conv(2, 1, 96)),
        "conv2d_depthwise_7x7" "F.conv2d(x[0], x[1], None, 1, 3, 1, 96)" [u(&[2, 96, 56, 56]), u(&[96, 1, 7, 7])] |x| f::conv2d(&x[0], &x[1], None, &conv(1, 3, 96)),
        "conv2d_grouped_4" "F.conv2d(x[0], x[1], None, 1, 1, 1, 4)" [u(&[4, 64, 28, 28]), u(&[64, 16, 3, 3])] |x| f::conv2d(&x[0], &x[1], None, &conv(1, 1, 4)),
        "conv2d_grouped_32_grad" "F.conv2d(x[0], x[1], None, 1, 1, 1, 32)" [g(&[4, 128, 28, 28]), g(&[128, 4, 3, 3])] |x| f::conv2d(&x[0], &x[1], None, &conv(1, 1, 32)),
        "conv2d_5x5_stride2" "F.conv2d(x[0], x[1], x[2], 2, 2)" [u(&[4, 32, 64, 64]), u(&[64, 32, 5, 5]), u(&[64])] |x| f::conv2d(&x[0], &x[1], Some(&x[2]), &conv(2, 2, 1)),
        "conv2d_5x5_stride2_grad" "F.conv2d(x[0], x[1], x[2], 2, 2)" [g(&[4, 32, 64, 64]), g(&[64, 32, 5, 5]), g(&[64])] |x| f::conv2d(&x[0], &x[1], Some(&x[2]), &conv(2, 2, 1)),
        "conv2d_3x3_grad" "F.conv2d(x[0], x[1], None, 1, 1)" [g(&[4, 64, 28, 28]), g(&[64, 64, 3, 3])] |x| f::conv2d(&x[0], &x[1], None, &conv(1, 1, 1)),
        "conv2d_3x3_dilated" "F.conv2d(x[0], x[1], None, 1, 2, 2)" [u(&[2, 64, 56, 56]), u(&[64, 64, 3, 3])] |x| f::conv2d(&x[0], &x[1], None, &ConvOptions { dilation: 2.into(), ..conv(1, 2, 1) }),
        "conv_transpose2d_4x4_stride2" "F.conv_transpose2d(x[0], x[1], None, 2, 1)" [u(&[4, 64, 28, 28]), u(&[64, 32, 4, 4])] |x| f::conv_transpose2d(&x[0], &x[1], None, &ConvTransposeOptions { stride: 2.into(), padding: 1.into(), ..Default::default() }),
        "conv_transpose2d_4x4_stride2_grad" "F.conv_transpose2d(x[0], x[1], None, 2, 1)" [g(&[4, 64, 28, 28]), g(&[64, 32, 4, 4])] |x| f::conv_transpose2d(&x[0], &x[1], None, &ConvTransposeOptions { stride: 2.into(), padding: 1.into(), ..Default::default() }),
        "conv_transpose2d_2x2_stride2" "F.conv_transpose2d(x[0], x[1], None, 2)" [u(&[4, 64, 56, 56]), u(&[64, 32, 2, 2])] |x| f::conv_transpose2d(&x[0], &x[1], None, &ConvTransposeOptions { stride: 2.into(), ..Default::default() }),
        "conv1d_k5" "F.conv1d(x[0], x[1], x[2], 1, 2)" [u(&[16, 64, 512]), u(&[64, 64, 5]), u(&[64])] |x| f::conv1d(&x[0], &x[1], Some(&x[2]), &conv(1, 2, 1)),
        "conv1d_k5_grad" "F.conv1d(x[0], x[1], x[2], 1, 2)" [g(&[16, 64, 512]), g(&[64, 64, 5]), g(&[64])] |x| f::conv1d(&x[0], &x[1], Some(&x[2]), &conv(1, 2, 1)),
        "conv1d_depthwise_k31" "F.conv1d(x[0], x[1], None, 1, 15, 1, 256)" [u(&[4, 256, 200]), u(&[256, 1, 31])] |x| f::conv1d(&x[0], &x[1], None, &conv(1, 15, 256)),
        "conv3d_3x3x3" "F.conv3d(x[0], x[1], None, 1, 1)" [u(&[1, 16, 16, 28, 28]), u(&[32, 16, 3, 3, 3])] |x| f::conv3d(&x[0], &x[1], None, &conv(1, 1, 1)),
    }
}
fn max_pool(padding: usize) -> MaxPoolOptions {
    MaxPoolOptions { stride: Some(2.into()), padding: padding.into(), ..MaxPoolOptions::new(3) }
}
fn pools() -> Vec<OrdinaryCall> {
    calls! {
        "max_pool2d_3_2" "F.max_pool2d(x[0], 3, 2, 1)" [u(&[4, 64, 112, 112])] |x| f::max_pool2d(&x[0], &max_pool(1)).0,
        "max_pool2d_2" "F.max_pool2d(x[0], 2)" [u(&[8, 32, 56, 56])] |x| f::max_pool2d(&x[0], &MaxPoolOptions::new(2)).0,
        "max_pool2d_3_2_grad" "F.max_pool2d(x[0], 3, 2, 1)" [g(&[4, 64, 56, 56])] |x| f::max_pool2d(&x[0], &max_pool(1)).0,
        "max_pool2d_2_grad" "F.max_pool2d(x[0], 2)" [g(&[8, 32, 56, 56])] |x| f::max_pool2d(&x[0], &MaxPoolOptions::new(2)).0,
        "max_pool3d_2" "F.max_pool3d(x[0], 2)" [u(&[2, 16, 16, 56, 56])] |x| f::max_pool3d(&x[0], &MaxPoolOptions::new(2)).0,
        "max_pool3d_2_grad" "F.max_pool3d(x[0], 2)" [g(&[1, 16, 16, 28, 28])] |x| f::max_pool3d(&x[0], &MaxPoolOptions::new(2)).0,
        "max_pool1d_3" "F.max_pool1d(x[0], 3)" [u(&[16, 64, 1024])] |x| f::max_pool1d(&x[0], &MaxPoolOptions::new(3)).0,
        "avg_pool2d_2" "F.avg_pool2d(x[0], 2)" [u(&[8, 64, 56, 56])] |x| f::avg_pool2d(&x[0], &AvgPoolOptions::new(2)),
        "avg_pool2d_3_1" "F.avg_pool2d(x[0], 3, 1, 1)" [u(&[4, 64, 28, 28])] |x| f::avg_pool2d(&x[0], &AvgPoolOptions { stride: Some(1.into()), padding: 1.into(), ..AvgPoolOptions::new(3) }),
        "avg_pool2d_2_grad" "F.avg_pool2d(x[0], 2)" [g(&[8, 64, 56, 56])] |x| f::avg_pool2d(&x[0], &AvgPoolOptions::new(2)),
        "adaptive_avg_pool2d_1" "F.adaptive_avg_pool2d(x[0], 1)" [u(&[32, 512, 7, 7])] |x| f::adaptive_avg_pool(&x[0], &[Some(1), Some(1)]),
        "adaptive_avg_pool2d_7" "F.adaptive_avg_pool2d(x[0], 7)" [u(&[8, 64, 30, 30])] |x| f::adaptive_avg_pool(&x[0], &[Some(7), Some(7)]),
        "adaptive_max_pool2d_7" "F.adaptive_max_pool2d(x[0], 7)" [u(&[8, 64, 30, 30])] |x| f::adaptive_max_pool(&x[0], &[Some(7), Some(7)]).0,
    }
}
fn places() -> Vec<OrdinaryCall> {
    calls! {
        "gather_rows" "torch.gather(x[0], 0, x[1])" [u(&[4096, 256]), index(&[4096, 256], 4096)] |x| x[0].gather(0, &x[1]),
        "gather_last" "torch.gather(x[0], 1, x[1])" [u(&[4096, 256]), index(&[4096, 256], 256)] |x| x[0].gather(1, &x[1]),
        "gather_one_of_each_row" "torch.gather(x[0], 1, x[1])" [u(&[4096, 1000]), index(&[4096, 1], 1000)] |x| x[0].gather(1, &x[1]),
        "gather_last_grad" "torch.gather(x[0], 1, x[1])" [g(&[2048, 256]), index(&[2048, 256], 256)] |x| x[0].gather(1, &x[1]),
        "index_select_0" "torch.index_select(x[0], 0, x[1])" [u(&[10000, 128]), index(&[8192], 10000)] |x| x[0].index_select(0, &x[1]),
        "index_select_1" "torch.index_select(x[0], 1, x[1])" [u(&[1024, 1024]), index(&[512], 1024)] |x| x[0].index_select(1, &x[1]),
        "index_select_last_of_3" "torch.index_select(x[0], 2, x[1])" [u(&[32, 64, 512]), index(&[256], 512)] |x| x[0].index_select(2, &x[1]),
        "take_along_dim_0" "torch.take_along_dim(x[0], x[1], 0)" [u(&[1024, 512]), index(&[1024, 512], 1024)] |x| x[0].take_along_dim(&x[1], 0),
        "take_along_dim_last" "torch.take_along_dim(x[0], x[1], 1)" [u(&[1024, 512]), index(&[1024, 512], 512)] |x| x[0].take_along_dim(&x[1], 1),
        "scatter_add_rows" "torch.scatter_add(x[0], 0, x[1], x[2])" [u(&[1024, 256]), index(&[4096, 256], 1024), u(&[4096, 256])] |x| x[0].scatter_add(0, &x[1], &x[2]),
        "scatter_add_last" "torch.scatter_add(x[0], 1, x[1], x[2])" [u(&[1024, 256]), index(&[1024, 512], 256), u(&[1024, 512])] |x| x[0].scatter_add(1, &x[1], &x[2]),
        "scatter_reduce_amax" "torch.scatter_reduce(x[0], 0, x[1], x[2], 'amax')" [u(&[1024, 64]), index(&[8192, 64], 1024), u(&[8192, 64])] |x| x[0].scatter_reduce(0, &x[1], &x[2], ScatterReduce::Amax, true),
        "index_add_0" "torch.index_add(x[0], 0, x[1], x[2])" [u(&[2048, 128]), index(&[16384], 2048), u(&[16384, 128])] |x| x[0].index_add(0, &x[1], &x[2], 1),
        "index_put_rows" "x[0].index_put((x[1],), x[2], accumulate=True)" [u(&[2048, 128]), index(&[8192], 2048), u(&[8192, 128])] |x| x[0].index_put(&[Some(&x[1])], &x[2], true),
        "masked_select_1m" "torch.masked_select(x[0], x[1])" [u(&[MEGA]), mask(&[MEGA])] |x| x[0].masked_select(&x[1]),
        "masked_fill_1m" "x[0].masked_fill(x[1], 0.0)" [u(&[1024, 1024]), mask(&[1024, 1024])] |x| x[0].masked_fill(&x[1], 0.0),
        "masked_fill_causal" "x[0].masked_fill(x[1], -1e9)" [u(&[8, 12, 128, 128]), mask(&[128, 128])] |x| x[0].masked_fill(&x[1], -1e9),
        "nonzero_1m" "torch.nonzero(x[0])" [mask(&[1024, 1024])] |x| x[0].nonzero(),
        "where_1m" "torch.where(x[0], x[1], x[2])" [mask(&[1024, 1024]), u(&[1024, 1024]), u(&[1024, 1024])] |x| x[0].where_(&x[1], &x[2]),
        "embedding_grad" "F.embedding(x[0], x[1])" [index(&[32, 128], 10000), g(&[10000, 128])] |x| f::embedding(&x[0], &x[1], None),
        "embedding_bag_mean" "F.embedding_bag(x[1], x[0], mode='mean')" [u(&[10000, 64]), index(&[512, 20], 10000)] |x| x[0].embedding_bag(&x[1], None, adamant_core::tensor::BagMode::Mean),
        "one_hot_1000" "F.one_hot(x[0], 1000)" [index(&[1024], 1000)] |x| x[0].one_hot(1000),
    }
}
fn reductions() -> Vec<OrdinaryCall> {
    calls! {
        "cumsum_rows" "torch.cumsum(x[0], 1)" [u(&[1024, 1024])] |x| x[0].cumsum(1),
        "cumsum_columns" "torch.cumsum(x[0], 0)" [u(&[1024, 1024])] |x| x[0].cumsum(0),
        "cumsum_1m" "torch.cumsum(x[0], 0)" [within(&[MEGA], 0.0, 1.0)] |x| x[0].cumsum(0),
        "cumsum_rows_grad" "torch.cumsum(x[0], 1)" [g(&[1024, 512])] |x| x[0].cumsum(1),
        "cumprod_rows" "torch.cumprod(x[0], 1)" [within(&[1024, 256], 0.9, 1.1)] |x| x[0].cumprod(1),
        "cummax_rows" "torch.cummax(x[0], 1)" [distinct(&[1024, 512])] |x| x[0].cummax(1),
        "logcumsumexp_rows" "torch.logcumsumexp(x[0], 1)" [u(&[1024, 512])] |x| x[0].logcumsumexp(1),
        "logsumexp_rows" "torch.logsumexp(x[0], 1)" [u(&[4096, 1000])] |x| x[0].logsumexp(1),
        "logsumexp_columns" "torch.logsumexp(x[0], 0)" [u(&[1000, 4096])] |x| x[0].logsumexp(0),
        "argmax_rows" "torch.argmax(x[0], 1)" [distinct(&[4096, 1000])] |x| x[0].argmax(1),
        "argmax_columns" "torch.argmax(x[0], 0)" [distinct(&[1000, 4096])] |x| x[0].argmax(0),
        "argmax_all" "torch.argmax(x[0])" [distinct(&[MEGA])] |x| x[0].argmax(..),
        "argmin_rows" "torch.argmin(x[0], 1)" [distinct(&[4096, 1000])] |x| x[0].argmin(1),
        "argmin_columns" "torch.argmin(x[0], 0)" [distinct(&[1000, 4096])] |x| x[0].argmin(0),
        "max_dim_rows" "torch.max(x[0], 1)" [distinct(&[4096, 1000])] |x| x[0].max_dim(1),
        "max_dim_columns" "torch.max(x[0], 0)" [distinct(&[1000, 4096])] |x| x[0].max_dim(0),
        "amax_rows" "torch.amax(x[0], 1)" [u(&[4096, 1000])] |x| x[0].amax(1),
        "sum_middle" "torch.sum(x[0], 1)" [u(&[64, 256, 64])] |x| x[0].sum(1),
        "mean_all" "torch.mean(x[0])" [u(&[MEGA])] |x| x[0].mean(..),
        "prod_rows" "torch.prod(x[0], 1)" [within(&[4096, 256], 0.9, 1.1)] |x| x[0].prod(1),
        "any_rows" "torch.any(x[0], 1)" [mask(&[4096, 1000])] |x| x[0].any(1),
        "var_rows" "torch.var(x[0], 1)" [u(&[4096, 768])] |x| x[0].var(1, 1.0),
        "std_columns" "torch.std(x[0], 0)" [u(&[4096, 768])] |x| x[0].std(0, 1.0),
        "var_mean_all" "torch.var_mean(x[0])" [u(&[MEGA])] |x| x[0].var_mean(.., 1.0),
        "norm_of_rows" "torch.linalg.vector_norm(x[0], 2, 1)" [u(&[8192, 128])] |x| x[0].vector_norm(2.0, 1),
        "normalize_rows_grad" "F.normalize(x[0], 2.0, 1)" [g(&[4096, 128])] |x| x[0].normalize(2.0, 1, 1e-12),
        "histc_1m" "torch.histc(x[0], 100, -1.0, 1.0)" [u(&[MEGA])] |x| x[0].histc(100, -1.0, 1.0),
        "bincount_1m" "torch.bincount(x[0], minlength=1000)" [index(&[MEGA], 1000)] |x| x[0].bincount(None, 1000),
    }
}
fn orders() -> Vec<OrdinaryCall> {
    calls! {
        "topk_10_of_1m" "torch.topk(x[0], 10)" [distinct(&[MEGA])] |x| x[0].topk(10, -1, true),
        "topk_10_of_rows" "torch.topk(x[0], 10, 1)" [distinct(&[1024, 1000])] |x| x[0].topk(10, 1, true),
        "topk_1_of_rows" "torch.topk(x[0], 1, 1)" [distinct(&[1024, 1000])] |x| x[0].topk(1, 1, true),
        "topk_100_of_rows" "torch.topk(x[0], 100, 1)" [distinct(&[256, 10000])] |x| x[0].topk(100, 1, true),
        "sort_1m" "torch.sort(x[0], stable=True)" [u(&[MEGA])] |x| x[0].sort(0, false),
        "sort_rows" "torch.sort(x[0], dim=1, stable=True)" [u(&[1024, 1024])] |x| x[0].sort(1, false),
        "sort_columns" "torch.sort(x[0], dim=0, stable=True)" [u(&[1024, 256])] |x| x[0].sort(0, false),
        "argsort_rows" "torch.argsort(x[0], dim=1, stable=True)" [u(&[1024, 1024])] |x| x[0].argsort(1, false),
        "argsort_i64_100k" "torch.argsort(x[0], stable=True)" [index(&[100_000], 1000)] |x| x[0].argsort(0, false),
        "unique_100k" "torch.unique(x[0], return_inverse=True, return_counts=True)" [index(&[100_000], 1000)] |x| x[0].unique(),
        "unique_consecutive_1m" "torch.unique_consecutive(x[0], return_inverse=True, return_counts=True)" [index(&[MEGA], 3)] |x| x[0].unique_consecutive(),
        "median_all_1m" "torch.median(x[0])" [u(&[MEGA])] |x| x[0].median(),
        "median_rows" "torch.median(x[0], 1)[0]" [u(&[1024, 1000])] |x| x[0].median_dim(1).0,
        "quantile_rows" "torch.quantile(x[0], 0.9, 1)" [u(&[1024, 1000])] |x| x[0].quantile(0.9, 1, Interpolation::Linear),
        "kthvalue_rows" "torch.kthvalue(x[0], 50, 1)[0]" [u(&[1024, 1000])] |x| x[0].kthvalue(50, 1).0,
        "mode_rows" "torch.mode(x[0], 1)[0]" [index(&[1024, 256], 20)] |x| x[0].mode(1).0,
        "searchsorted_1m_in_10k" "torch.searchsorted(x[0], x[1])" [input(&[10_000], DType::F32, Fill::Sorted), u(&[MEGA])] |x| x[0].searchsorted(&x[1], false),
        "bucketize_1m_in_100" "torch.bucketize(x[0], x[1])" [u(&[MEGA]), input(&[100], DType::F32, Fill::Sorted)] |x| x[0].bucketize(&x[1], false),
        "isin_100k" "torch.isin(x[0], x[1])" [index(&[100_000], 100_000), index(&[100], 100_000)] |x| x[0].isin(&x[1]),
        "beam_search_step" "beam(x[0], x[1])" [u(&[32, 30522]), within(&[32, 1], -5.0, 0.0)] |x| {
            let scores = x[0].log_softmax(1) + &x[1];
            let (best, token) = scores.reshape([8, 4 * 30522]).topk(8, 1, true);
            let beam = token.floor_divide(30522);
            let carried = x[1].reshape([8, 4]).gather(1, &beam);
            vec![best, carried, token]
        },
    }
    .into_iter()
    .map(|row| if row.name == "beam_search_step" { OrdinaryCall { setup: BEAM, ..row } } else { row })
    .collect()
}
const BEAM: &str = "
def beam(logits, before):
    scores = torch.log_softmax(logits, 1) + before
    best, token = scores.reshape(8, -1).topk(8, 1)
    beam = token // 30522
    return best, before.reshape(8, 4).gather(1, beam), token
";
fn algebra() -> Vec<OrdinaryCall> {
    calls! {
        "solve_256" "torch.linalg.solve(x[0], x[1])" [definite(256), u(&[256, 16])] |x| x[0].solve(&x[1]),
        "solve_512" "torch.linalg.solve(x[0], x[1])" [definite(512), u(&[512, 512])] |x| x[0].solve(&x[1]),
        "solve_batch_256x8" "torch.linalg.solve(x[0], x[1])" [input(&[256, 8, 8], DType::F32, Fill::Definite), u(&[256, 8, 1])] |x| x[0].solve(&x[1]),
        "inv_256" "torch.linalg.inv(x[0])" [definite(256)] |x| x[0].inv(),
        "inv_batch_1024x4" "torch.linalg.inv(x[0])" [input(&[1024, 4, 4], DType::F32, Fill::Definite)] |x| x[0].inv(),
        "cholesky_512" "torch.linalg.cholesky(x[0])" [definite(512)] |x| x[0].cholesky(),
        "cholesky_256_grad" "torch.linalg.cholesky(x[0])" [CallInput { leaf: true, ..definite(256) }] |x| x[0].cholesky(),
        "solve_triangular_512" "torch.linalg.solve_triangular(x[0], x[1], upper=True)" [definite(512), u(&[512, 64])] |x| x[0].solve_triangular(&x[1], true, false),
        "qr_256" "torch.linalg.qr(x[0])" [u(&[256, 256])] |x| x[0].qr(),
        "qr_1000x32" "torch.linalg.qr(x[0])" [u(&[1000, 32])] |x| x[0].qr(),
        "svdvals_128" "torch.linalg.svdvals(x[0])" [u(&[128, 128])] |x| x[0].svdvals(),
        "svd_200x64" "absolute(torch.linalg.svd(x[0], full_matrices=False))" [u(&[200, 64])] |x| { let (u, s, v) = x[0].svd(); (u.abs(), s, v.abs()) },
        "svd_256" "absolute(torch.linalg.svd(x[0], full_matrices=False))" [u(&[256, 256])] |x| { let (u, s, v) = x[0].svd(); (u.abs(), s, v.abs()) },
        "eigvalsh_256" "torch.linalg.eigvalsh(x[0])" [definite(256)] |x| x[0].eigvalsh(),
        "eigh_128" "absolute(torch.linalg.eigh(x[0]))" [definite(128)] |x| { let (w, v) = x[0].eigh(); (w.abs(), v.abs()) },
        "det_256" "torch.linalg.slogdet(x[0])" [definite(256)] |x| x[0].slogdet(),
        "det_batch_4096x3" "torch.linalg.det(x[0])" [input(&[4096, 3, 3], DType::F32, Fill::Definite)] |x| x[0].det(),
        "lstsq_500x20" "torch.linalg.lstsq(x[0], x[1]).solution" [u(&[500, 20]), u(&[500, 4])] |x| x[0].lstsq(&x[1], None),
        "matrix_exp_64" "torch.linalg.matrix_exp(x[0])" [within(&[8, 64, 64], -0.05, 0.05)] |x| x[0].matrix_exp(),
        "pinv_100x50" "torch.linalg.pinv(x[0])" [u(&[100, 50])] |x| x[0].pinv(None),
        "matmul_1000x10x1000" "torch.matmul(x[0], x[1])" [u(&[1000, 10]), u(&[10, 1000])] |x| x[0].matmul(&x[1]),
        "matmul_1000x1000x10" "torch.matmul(x[0], x[1])" [u(&[1000, 1000]), u(&[1000, 10])] |x| x[0].matmul(&x[1]),
        "matmul_512_grad" "torch.matmul(x[0], x[1])" [g(&[512, 512]), g(&[512, 512])] |x| x[0].matmul(&x[1]),
        "mv_2048" "torch.mv(x[0], x[1])" [u(&[2048, 2048]), u(&[2048])] |x| x[0].mv(&x[1]),
        "dot_1m" "torch.dot(x[0], x[1])" [u(&[MEGA]), u(&[MEGA])] |x| x[0].dot(&x[1]),
        "matmul_f64_256" "torch.matmul(x[0], x[1])" [of(DType::F64, &[256, 256]), of(DType::F64, &[256, 256])] |x| x[0].matmul(&x[1]),
        "matmul_i64_128" "torch.matmul(x[0], x[1])" [input(&[128, 128], DType::I64, Fill::Whole(-9, 9)), input(&[128, 128], DType::I64, Fill::Whole(-9, 9))] |x| x[0].matmul(&x[1]),
        "bmm_64x64x64x64" "torch.bmm(x[0], x[1])" [u(&[64, 64, 64]), u(&[64, 64, 64])] |x| x[0].bmm(&x[1]),
        "bmm_1024x8x8x8" "torch.bmm(x[0], x[1])" [u(&[1024, 8, 8]), u(&[1024, 8, 8])] |x| x[0].bmm(&x[1]),
        "einsum_attention_scores" "torch.einsum('bqhd,bkhd->bhqk', x[0], x[1])" [u(&[4, 128, 8, 64]), u(&[4, 128, 8, 64])] |x| Tensor::einsum("bqhd,bkhd->bhqk", x),
        "einsum_bilinear" "torch.einsum('bi,ij,bj->b', x[0], x[1], x[2])" [u(&[1024, 64]), u(&[64, 64]), u(&[1024, 64])] |x| Tensor::einsum("bi,ij,bj->b", x),
        "einsum_diagonal" "torch.einsum('bii->bi', x[0]) + 0" [u(&[64, 256, 256])] |x| Tensor::einsum("bii->bi", x) + 0.0,
        "einsum_outer_sum" "torch.einsum('bi,bj->ij', x[0], x[1])" [u(&[256, 256]), u(&[256, 128])] |x| Tensor::einsum("bi,bj->ij", x),
        "kron_32" "torch.kron(x[0], x[1])" [u(&[32, 32]), u(&[32, 32])] |x| x[0].kron(&x[1]),
        "outer_1024" "torch.outer(x[0], x[1])" [u(&[1024]), u(&[1024])] |x| x[0].outer(&x[1]),
        "cross_100kx3" "torch.linalg.cross(x[0], x[1], dim=1)" [u(&[100_000, 3]), u(&[100_000, 3])] |x| x[0].cross(&x[1], 1),
    }
    .into_iter()
    .map(|row| if row.torch.starts_with("absolute(") { OrdinaryCall { setup: "absolute = lambda many: tuple(y.abs() for y in many)", ..row } } else { row })
    .collect()
}
fn moves() -> Vec<OrdinaryCall> {
    calls! {
        "transpose_copy_1024" "x[0].mT.reshape(-1)" [u(&[1024, 1024])] |x| x[0].mt().reshape([MEGA]),
        "permute_copy_nchw_nhwc" "x[0].permute(0, 2, 3, 1).reshape(-1)" [u(&[8, 64, 56, 56])] |x| x[0].permute([0, 2, 3, 1]).reshape([-1]),
        "permute_copy_heads" "x[0].permute(0, 2, 1, 3).reshape(-1)" [u(&[8, 128, 12, 64])] |x| x[0].permute([0, 2, 1, 3]).reshape([-1]),
        "permute_copy_bf16" "x[0].permute(0, 2, 3, 1).reshape(-1)" [of(DType::BF16, &[8, 64, 56, 56])] |x| x[0].permute([0, 2, 3, 1]).reshape([-1]),
        "triu_1024" "torch.triu(x[0], 1)" [u(&[1024, 1024])] |x| x[0].triu(1),
        "tril_1024" "torch.tril(x[0])" [u(&[1024, 1024])] |x| x[0].tril(0),
        "roll_1024" "torch.roll(x[0], (3, 5), (0, 1))" [u(&[1024, 1024])] |x| x[0].roll([3, 5], [0, 1]),
        "flip_last" "torch.flip(x[0], (1,))" [u(&[1024, 1024])] |x| x[0].flip([1]),
        "flip_picture" "torch.flip(x[0], (3,))" [u(&[32, 3, 112, 112])] |x| x[0].flip([3]),
        "repeat_4x" "x[0].repeat(4, 1, 2)" [u(&[64, 64, 64])] |x| x[0].repeat([4, 1, 2]),
        "repeat_interleave_2" "torch.repeat_interleave(x[0], 2, 1)" [u(&[512, 512])] |x| x[0].repeat_interleave(2, 1),
        "cat_rows" "torch.cat((x[0], x[1]), 0)" [u(&[512, 1024]), u(&[512, 1024])] |x| Tensor::cat(&[&x[0], &x[1]], 0),
        "cat_last" "torch.cat((x[0], x[1]), 1)" [u(&[1024, 512]), u(&[1024, 512])] |x| Tensor::cat(&[&x[0], &x[1]], 1),
        "cat_channels_grad" "torch.cat((x[0], x[1]), 1)" [g(&[8, 32, 28, 28]), g(&[8, 32, 28, 28])] |x| Tensor::cat(&[&x[0], &x[1]], 1),
        "stack_last" "torch.stack((x[0], x[1]), 2)" [u(&[512, 512]), u(&[512, 512])] |x| Tensor::stack(&[&x[0], &x[1]], 2),
        "cast_f32_bf16" "x[0].to(torch.bfloat16)" [u(&[MEGA])] |x| x[0].cast(DType::BF16),
        "cast_i64_f32" "x[0].to(torch.float32)" [index(&[MEGA], 1000)] |x| x[0].cast(DType::F32),
        "add_transposed" "x[0] + x[1].mT" [u(&[1024, 1024]), u(&[1024, 1024])] |x| &x[0] + x[1].mt(),
    }
}
fn maps() -> Vec<OrdinaryCall> {
    calls! {
        "erfinv_1m" "torch.erfinv(x[0])" [within(&[MEGA], -0.99, 0.99)] |x| x[0].erfinv(),
        "selu_1m" "F.selu(x[0])" [u(&[MEGA])] |x| x[0].selu(),
        "ndtr_1m" "torch.special.ndtr(x[0])" [within(&[MEGA], -3.0, 3.0)] |x| x[0].ndtr(),
        "gelu_grad_1m" "F.gelu(x[0])" [g(&[MEGA])] |x| x[0].gelu(),
        "gelu_tanh_grad_1m" "F.gelu(x[0], approximate='tanh')" [g(&[MEGA])] |x| x[0].gelu_tanh(),
        "silu_grad_1m" "F.silu(x[0])" [g(&[MEGA])] |x| x[0].silu(),
        "tan_1m" "torch.tan(x[0])" [within(&[MEGA], -1.5, 1.5)] |x| x[0].tan(),
        "sin_1m" "torch.sin(x[0])" [within(&[MEGA], -30.0, 30.0)] |x| x[0].sin(),
        "softplus_1m" "F.softplus(x[0])" [within(&[MEGA], -10.0, 10.0)] |x| x[0].softplus(),
        "mish_grad_1m" "F.mish(x[0])" [g(&[MEGA])] |x| x[0].mish(),
        "asin_1m" "torch.asin(x[0])" [u(&[MEGA])] |x| x[0].asin(),
        "acos_1m" "torch.acos(x[0])" [u(&[MEGA])] |x| x[0].acos(),
        "atan_1m" "torch.atan(x[0])" [within(&[MEGA], -5.0, 5.0)] |x| x[0].atan(),
        "atan2_1m" "torch.atan2(x[0], x[1])" [u(&[MEGA]), u(&[MEGA])] |x| x[0].atan2(&x[1]),
        "pow_tensor_1m" "torch.pow(x[0], x[1])" [within(&[MEGA], 0.1, 3.0), within(&[MEGA], -2.0, 2.0)] |x| x[0].pow(&x[1]),
        "pow_2_5_1m" "torch.pow(x[0], 2.5)" [within(&[MEGA], 0.1, 3.0)] |x| x[0].pow(2.5),
        "pow_3_1m" "torch.pow(x[0], 3)" [u(&[MEGA])] |x| x[0].pow(3),
        "lgamma_1m" "torch.lgamma(x[0])" [within(&[MEGA], 0.1, 10.0)] |x| x[0].lgamma(),
        "digamma_1m" "torch.digamma(x[0])" [within(&[MEGA], 0.1, 10.0)] |x| x[0].digamma(),
        "i0_1m" "torch.i0(x[0])" [within(&[MEGA], -5.0, 5.0)] |x| x[0].i0(),
        "exp_small" "torch.exp(x[0])" [u(&[64])] |x| x[0].exp(),
        "add_small_grad" "x[0] * x[1] + x[0]" [g(&[64]), g(&[64])] |x| &x[0] * &x[1] + &x[0],
        "floor_divide_i64_1m" "x[0] // 7" [index(&[MEGA], 100_000)] |x| x[0].floor_divide(7),
        "remainder_1m" "torch.remainder(x[0], 0.3)" [u(&[MEGA])] |x| x[0].remainder(0.3),
        "compare_and_1m" "(x[0] > 0) & (x[1] < 0.5)" [u(&[MEGA]), u(&[MEGA])] |x| x[0].gt(0).bitwise_and(x[1].lt(0.5)),
        "clamp_1m" "torch.clamp(x[0], -0.5, 0.5)" [u(&[MEGA])] |x| x[0].clamp(-0.5, 0.5),
        "chain_bf16_1m" "torch.tanh(x[0] * x[1] + x[0]).square().mul(0.5)" [of(DType::BF16, &[MEGA]), of(DType::BF16, &[MEGA])] |x| (&x[0] * &x[1] + &x[0]).tanh().square() * 0.5,
        "chain_f16_1m" "torch.sigmoid(x[0] * x[1] + x[0]) - x[1].abs()" [of(DType::F16, &[MEGA]), of(DType::F16, &[MEGA])] |x| (&x[0] * &x[1] + &x[0]).sigmoid() - x[1].abs(),
        "chain_bf16_grad_1m" "F.gelu(x[0] * x[1])" [CallInput { leaf: true, ..of(DType::BF16, &[MEGA]) }, CallInput { leaf: true, ..of(DType::BF16, &[MEGA]) }] |x| (&x[0] * &x[1]).gelu(),
        "chain_f32_1m" "(torch.exp(-x[0].square()) * x[1]).sum(1)" [u(&[1024, 1024]), u(&[1024, 1024])] |x| ((-x[0].square()).exp() * &x[1]).sum(1),
        "softmax_bf16" "torch.softmax(x[0], 1)" [of(DType::BF16, &[1024, 1024])] |x| x[0].softmax(1),
        "sum_bf16_rows" "torch.sum(x[0], 1)" [of(DType::BF16, &[1024, 1024])] |x| x[0].sum(1),
    }
}
fn norms() -> Vec<OrdinaryCall> {
    calls! {
        "softmax_rows" "torch.softmax(x[0], 1)" [u(&[4096, 1000])] |x| x[0].softmax(1),
        "softmax_columns" "torch.softmax(x[0], 0)" [u(&[1000, 1000])] |x| x[0].softmax(0),
        "softmax_grad" "torch.softmax(x[0], -1)" [g(&[8, 12, 128, 128])] |x| x[0].softmax(-1),
        "log_softmax_grad" "torch.log_softmax(x[0], 1)" [g(&[2048, 1000])] |x| x[0].log_softmax(1),
        "cross_entropy_grad" "F.cross_entropy(x[0], x[1])" [g(&[512, 1000]), index(&[512], 1000)] |x| f::cross_entropy(&x[0], &x[1], &CrossEntropyOptions::default()),
        "cross_entropy_pixels_grad" "F.cross_entropy(x[0], x[1])" [g(&[4, 21, 64, 64]), index(&[4, 64, 64], 21)] |x| f::cross_entropy(&x[0], &x[1], &CrossEntropyOptions::default()),
        "bce_with_logits_grad" "F.binary_cross_entropy_with_logits(x[0], x[1])" [g(&[1024, 100]), within(&[1024, 100], 0.0, 1.0)] |x| f::binary_cross_entropy_with_logits(&x[0], &x[1], None, None, Reduction::Mean),
        "layer_norm" "F.layer_norm(x[0], (768,), x[1], x[2])" [u(&[2048, 768]), u(&[768]), u(&[768])] |x| f::layer_norm(&x[0], [768], Some(&x[1]), Some(&x[2]), 1e-5),
        "layer_norm_grad" "F.layer_norm(x[0], (768,), x[1], x[2])" [g(&[2048, 768]), g(&[768]), g(&[768])] |x| f::layer_norm(&x[0], [768], Some(&x[1]), Some(&x[2]), 1e-5),
        "rms_norm" "F.rms_norm(x[0], (768,), x[1], 1e-5)" [u(&[2048, 768]), u(&[768])] |x| f::rms_norm(&x[0], [768], Some(&x[1]), Some(1e-5)),
        "rms_norm_grad" "F.rms_norm(x[0], (768,), x[1], 1e-5)" [g(&[2048, 768]), g(&[768])] |x| f::rms_norm(&x[0], [768], Some(&x[1]), Some(1e-5)),
        "batch_norm_inference" "F.batch_norm(x[0], x[1], x[2], x[3], x[4])" [u(&[8, 64, 56, 56]), u(&[64]), within(&[64], 0.5, 2.0), u(&[64]), u(&[64])] |x| f::batch_norm_inference(&x[0], &x[1], &x[2], Some(&x[3]), Some(&x[4]), 1e-5),
        "batch_norm_training_grad" "F.batch_norm(x[0], None, None, x[1], x[2], True)" [g(&[8, 64, 28, 28]), g(&[64]), g(&[64])] |x| f::batch_norm_training(&x[0], Some(&x[1]), Some(&x[2]), 1e-5).0,
        "group_norm" "F.group_norm(x[0], 8, x[1], x[2])" [u(&[8, 64, 32, 32]), u(&[64]), u(&[64])] |x| f::group_norm(&x[0], 8, Some(&x[1]), Some(&x[2]), 1e-5),
        "group_norm_grad" "F.group_norm(x[0], 8, x[1], x[2])" [g(&[8, 64, 32, 32]), g(&[64]), g(&[64])] |x| f::group_norm(&x[0], 8, Some(&x[1]), Some(&x[2]), 1e-5),
        "instance_norm" "F.instance_norm(x[0], None, None, x[1], x[2])" [u(&[8, 64, 32, 32]), u(&[64]), u(&[64])] |x| f::instance_norm(&x[0], Some(&x[1]), Some(&x[2]), 1e-5),
        "instance_norm_grad" "F.instance_norm(x[0], None, None, x[1], x[2])" [g(&[8, 64, 32, 32]), g(&[64]), g(&[64])] |x| f::instance_norm(&x[0], Some(&x[1]), Some(&x[2]), 1e-5),
        "local_response_norm" "F.local_response_norm(x[0], 5)" [u(&[4, 64, 28, 28])] |x| f::local_response_norm(&x[0], 5, 1e-4, 0.75, 1.0),
        "attention_causal" "F.scaled_dot_product_attention(x[0], x[1], x[2], is_causal=True)" [u(&[4, 8, 256, 64]), u(&[4, 8, 256, 64]), u(&[4, 8, 256, 64])] |x| f::scaled_dot_product_attention(&x[0], &x[1], &x[2], &AttentionOptions { is_causal: true, ..Default::default() }),
        "attention_grad" "F.scaled_dot_product_attention(x[0], x[1], x[2])" [g(&[4, 8, 128, 64]), g(&[4, 8, 128, 64]), g(&[4, 8, 128, 64])] |x| f::scaled_dot_product_attention(&x[0], &x[1], &x[2], &AttentionOptions::default()),
    }
}
/// What a thread draws from.
fn rng() -> adamant::Result<Rng> {
    Rng::new(1)
}
fn draws() -> Vec<OrdinaryCall> {
    let row = |name, torch, inputs, call| OrdinaryCall { name, torch, setup: "", inputs, call: OrdinaryCallee::Once(call) };
    vec![
        row("drawn_dropout_1m", "F.dropout(x[0], 0.1, True)", vec![u(&[MEGA])], || {
            let rng = rng()?;
            Ok(Box::new(move |x| vec![f::dropout(&x[0], 0.1, &rng)]))
        }),
        row("drawn_multinomial", "torch.multinomial(x[0], 1)", vec![within(&[64, 10_000], 0.0, 1.0)], || {
            let rng = rng()?;
            Ok(Box::new(move |x| vec![x[0].multinomial(1, false, &rng)]))
        }),
        row("drawn_randperm_100k", "torch.randperm(100000)", vec![], || {
            let rng = rng()?;
            Ok(Box::new(move |_| vec![Tensor::randperm(100_000, &rng)]))
        }),
        row("drawn_randn_1m", "torch.randn(1048576)", vec![], || {
            let rng = rng()?;
            Ok(Box::new(move |_| vec![Tensor::randn([MEGA], &rng)]))
        }),
        row("drawn_rand_1m", "torch.rand(1048576)", vec![], || {
            let rng = rng()?;
            Ok(Box::new(move |_| vec![Tensor::rand([MEGA], &rng)]))
        }),
        row("drawn_normal_1m", "torch.normal(x[0], x[1])", vec![u(&[MEGA]), within(&[MEGA], 0.5, 1.0)], || {
            let rng = rng()?;
            Ok(Box::new(move |x| vec![Tensor::normal(&x[0], &x[1], &rng)]))
        }),
    ]
}
const VIT: &str = "
def vit(picture, patch, place, q, p, up, down, a, b, head, target):
    h = F.conv2d(picture, patch, None, 4).flatten(2).mT + place
    for _ in range(6):
        n = F.layer_norm(h, (192,), a, b)
        qkv = F.linear(n, q).reshape(8, 64, 3, 3, 64).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
        h = h + F.linear(y.permute(0, 2, 1, 3).reshape(8, 64, 192), p)
        h = h + F.linear(F.gelu(F.linear(F.layer_norm(h, (192,), a, b), up)), down)
    return F.cross_entropy(F.linear(h.mean(1), head), target)
";
/// Six blocks of ViT-tiny over pictures of 32 x 32, whose weights are the same tensors, and the loss.
fn vit(x: &[Tensor]) -> Tensor {
    let [picture, patch, place, q, p, up, down, a, b, head, target] = x else { return Tensor::zeros([0]) };
    let norm = |h: &Tensor| f::layer_norm(h, [192], Some(a), Some(b), 1e-5);
    let mut h = f::conv2d(picture, patch, None, &conv(4, 0, 1)).flatten(2, -1).mt() + place;
    for _ in 0..6 {
        let qkv = f::linear(&norm(&h), q, None).reshape([8, 64, 3, 3, 64]).permute([2, 0, 3, 1, 4]);
        let y = f::scaled_dot_product_attention(&qkv.select(0, 0), &qkv.select(0, 1), &qkv.select(0, 2), &AttentionOptions::default());
        h = h + f::linear(&y.permute([0, 2, 1, 3]).reshape([8, 64, 192]), p, None);
        let wide = f::linear(&norm(&h), up, None).gelu();
        h = h + f::linear(&wide, down, None);
    }
    f::cross_entropy(&f::linear(&h.mean(1), head, None), target, &CrossEntropyOptions::default())
}
fn networks() -> Vec<OrdinaryCall> {
    let recurrent = |name, torch, setup, call| OrdinaryCall { name, torch, setup, inputs: vec![u(&[16, 64, 128])], call: OrdinaryCallee::Once(call) };
    let w = |shape: &[usize]| CallInput { leaf: true, ..within(shape, -0.05, 0.05) };
    vec![
        recurrent("drawn_gru_16x64x128", "m(x[0])[0]", "m = torch.nn.GRU(128, 128, batch_first=True)", || {
            let m = Gru::with(128, 128, RecurrentOptions { batch_first: true, ..Default::default() })?;
            Ok(Box::new(move |x| Outputs::outputs(m.forward(&x[0]))))
        }),
        recurrent("drawn_lstm_16x64x128", "m(x[0])[0]", "m = torch.nn.LSTM(128, 128, batch_first=True)", || {
            let m = Lstm::with(128, 128, RecurrentOptions { batch_first: true, ..Default::default() })?;
            Ok(Box::new(move |x| Outputs::outputs(m.forward(&x[0]))))
        }),
        OrdinaryCall {
            name: "vit_tiny_step",
            torch: "vit(*x)",
            setup: VIT,
            inputs: vec![
                u(&[8, 3, 32, 32]),
                w(&[192, 3, 4, 4]),
                w(&[64, 192]),
                w(&[576, 192]),
                w(&[192, 192]),
                w(&[768, 192]),
                w(&[192, 768]),
                CallInput { leaf: true, ..within(&[192], 0.5, 1.5) },
                w(&[192]),
                w(&[10, 192]),
                index(&[8], 10),
            ],
            call: OrdinaryCallee::Plain(|x| vec![vit(x)]),
        },
    ]
}
