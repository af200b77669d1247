//! Twenty kernels of all families, with the inputs of a seed, on a device: beside the CPU backend, and beside what another device gave.
use super::{figures::of_table, lines::FigureVerdict};
use crate::{device, exit::Exit};
use adamant::{
    Cell, DType, Device, Result, Tensor, formats,
    functional::{AttentionOptions, ConvOptions, CrossEntropyOptions, conv2d, cross_entropy, embedding, layer_norm, linear, scaled_dot_product_attention},
};
use adamant_bench::inputs::{indices, tensor};
use std::{collections::BTreeMap, path::PathBuf};

/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// cpu, cuda:N or wgpu:N
    #[arg(long, default_value = "cuda:0")]
    device: String,
    /// Write the answers here
    #[arg(long)]
    write: Option<PathBuf>,
    /// Compare with answers that were written, of another device, instead of with the CPU's
    #[arg(long)]
    against: Option<PathBuf>,
}
/// A name, what is computed, and how far two devices may be apart, as a share of the largest number.
type KernelCase = (&'static str, fn() -> Result<Vec<Tensor>>, f64);
/// In f32, in 16 bits, and where every bit counts.
const F32: f64 = 2e-5;
const HALF: f64 = 2e-2;
const EXACT: f64 = 0.0;

/// The kernels. Lengths are odd where a kernel has edges to look after.
const KERNELS: [KernelCase; 20] = [
    ("add_rows_f32", || Ok(vec![tensor(&[37, 129], 1) + tensor(&[129], 2)]), F32),
    ("gelu_bf16", || Ok(vec![(bf16(&[33, 255], 1) * bf16(&[255], 2)).gelu_tanh()]), HALF),
    ("exp_sin_f64", || Ok(vec![tensor(&[1025], 1).cast(DType::F64).exp().sin()]), F32),
    ("wrapping_i32", || Ok(vec![integers() * integers() + 2_147_483_647i32]), EXACT),
    ("sum_rows_f32", || Ok(vec![tensor(&[65, 1027], 1).sum(1), tensor(&[65, 1027], 1).sum(0)]), F32),
    ("largest_i64", || Ok(vec![tensor(&[65, 1027], 1).argmax(1), indices(&[65, 99], 1000).amax(0)]), EXACT),
    ("softmax_bf16", || Ok(vec![bf16(&[33, 1025], 1).softmax(-1), tensor(&[5, 33], 2).log_softmax(-1)]), HALF),
    ("layer_norm_f32", || gradients(&[&[33, 257], &[257], &[257]], |t| layer_norm(&t[0], [257], Some(&t[1]), Some(&t[2]), 1e-5)), 2e-4),
    ("cross_entropy_bf16", || gradients_in(DType::BF16, &[&[17, 5003]], |t| entropy(&t[0])), HALF),
    ("matmul_f32", || Ok(vec![tensor(&[65, 130], 1).matmul(tensor(&[130, 33], 2))]), F32),
    ("matmul_bf16", || Ok(vec![bf16(&[192, 256], 1).matmul(bf16(&[256, 128], 2))]), HALF),
    ("matmul_f16_odd", || Ok(vec![tensor(&[65, 131], 1).cast(DType::F16).matmul(tensor(&[131, 33], 2).cast(DType::F16))]), HALF),
    ("matmul_batched_f32", || Ok(vec![tensor(&[6, 33, 64], 1).matmul(tensor(&[6, 40, 64], 2).mt())]), F32),
    ("linear_gelu_bf16", || gradients_in(DType::BF16, &[&[40, 64], &[48, 64], &[48]], |t| linear(&t[0], &t[1], Some(&t[2])).gelu_tanh()), HALF),
    ("conv_f32", || Ok(vec![conv2d(&tensor(&[2, 3, 19, 19], 1), &tensor(&[8, 3, 3, 3], 2), None, &convolution())]), F32),
    ("conv_bf16", || gradients_in(DType::BF16, &[&[2, 16, 12, 12], &[32, 16, 3, 3]], |t| conv2d(&t[0], &t[1], None, &convolution())), HALF),
    ("attention_bf16", || Ok(vec![attention(&[1, 2, 3].map(|s| bf16(&[2, 3, 67, 64], s)))]), HALF),
    ("attention_back_bf16", || gradients_in(DType::BF16, &[&[1, 2, 65, 64][..]; 3], attention), 4e-2),
    ("embedding_f32", || gradients(&[&[50, 33]], |t| embedding(&indices(&[77], 50), &t[0], None)), F32),
    ("cumsum_sort_f32", || Ok(vec![tensor(&[9, 300], 1).cumsum(1), tensor(&[9, 300], 1).sort(1, false).0]), F32),
];
fn bf16(shape: &[usize], seed: u64) -> Tensor {
    tensor(shape, seed).cast(DType::BF16)
}
fn integers() -> Tensor {
    Tensor::from_vec((0..999i64).map(|k| (k * 2_654_435_761 % 4_294_967_296 - 2_147_483_648) as i32).collect(), [999])
}
fn convolution() -> ConvOptions {
    ConvOptions { stride: 2.into(), padding: 1.into(), ..ConvOptions::default() }
}
fn entropy(logits: &Tensor) -> Tensor {
    cross_entropy(logits, &indices(&[17], 5003), &CrossEntropyOptions::default())
}
fn attention(qkv: &[Tensor]) -> Tensor {
    match qkv {
        [q, k, v] => scaled_dot_product_attention(q, k, v, &AttentionOptions { is_causal: true, ..AttentionOptions::default() }),
        _ => Tensor::zeros([0]),
    }
}
fn gradients(shapes: &[&[usize]], f: fn(&[Tensor]) -> Tensor) -> Result<Vec<Tensor>> {
    gradients_in(DType::F32, shapes, f)
}
/// A function of tensors of these shapes, and what the mean of its squares gives them.
fn gradients_in(dtype: DType, shapes: &[&[usize]], f: fn(&[Tensor]) -> Tensor) -> Result<Vec<Tensor>> {
    let cells = shapes.iter().zip(1..).map(|(shape, seed)| Cell::new(&tensor(shape, seed).cast(dtype), true)).collect::<Result<Vec<Cell>>>()?;
    let y = f(&cells.iter().map(Cell::get).collect::<Vec<_>>());
    let grads = (&y * &y).mean(..).backward()?;
    Ok([y.detach()].into_iter().chain(cells.iter().filter_map(|cell| grads.of(cell).cloned())).collect())
}
/// The numbers of all kernels on a device; of one that fails, why.
fn answers(device: Device) -> Vec<(&'static str, Result<Vec<Vec<f64>>>)> {
    let of = |f: fn() -> Result<Vec<Tensor>>| device.scoped(|| f()?.iter().map(Tensor::to_vec_as::<f64>).collect());
    KERNELS.iter().map(|(name, f, _)| (*name, of(*f))).collect()
}
/// Is each result as near to the other as it may be?
fn agree(ours: &[Vec<f64>], theirs: &[Vec<f64>], most: f64) -> std::result::Result<(), String> {
    if ours.is_empty() || ours.len() != theirs.len() {
        return Err(format!("{} results beside {}", ours.len(), theirs.len()));
    }
    for (k, (a, b)) in ours.iter().zip(theirs).enumerate() {
        if a.is_empty() || a.len() != b.len() {
            return Err(format!("result {k} has {} numbers beside {}", a.len(), b.len()));
        }
        let size = b.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        let off = a.iter().zip(b).find(|(a, b)| (*a - *b).is_nan() || (*a - *b).abs() > most * size);
        if let Some((a, b)) = off {
            return Err(format!("result {k}: {a} beside {b}, of numbers up to {size}"));
        }
    }
    Ok(())
}

/// Computes, and prints how many kernels agree.
pub fn run(options: &Options) -> Exit {
    let device = match device::open(&options.device) {
        Ok(device) => device,
        Err(exit) => return exit,
    };
    match compared(options, device) {
        Ok(exit) => exit,
        Err(e) => {
            eprintln!("{e}");
            Exit::Failed
        }
    }
}
fn compared(options: &Options, device: Device) -> Result<Exit> {
    let (ours, cpu) = (answers(device), "cpu".parse::<Device>()?);
    if let Some(path) = &options.write {
        let written = |(name, all): &(&str, Result<Vec<Vec<f64>>>)| {
            let tensors = all.iter().flatten().enumerate().map(|(k, numbers)| (format!("{name}.{k}"), Tensor::from_slice(numbers, [numbers.len()])));
            tensors.collect::<Vec<_>>()
        };
        cpu.scoped(|| formats::safetensors::save(path, ours.iter().flat_map(written), &BTreeMap::new()))?;
    }
    let (figure, theirs) = match &options.against {
        Some(path) => ("kernels_emulator", read(path, cpu)?),
        None => ("kernels_cpu", answers(cpu)),
    };
    let mut agreeing = 0;
    for ((name, _, most), ((_, a), (_, b))) in KERNELS.iter().zip(ours.into_iter().zip(theirs)) {
        let said = match (a, b) {
            (Ok(a), Ok(b)) => agree(&a, &b, *most),
            (Err(e), _) => Err(e.to_string()),
            (Ok(_), Err(e)) => Err(format!("on the other side: {e}")),
        };
        match said {
            Ok(()) => agreeing += 1,
            Err(why) => eprintln!("{name}: {why}"),
        }
    }
    let line = of_table(figure, Ok(f64::from(agreeing)));
    println!("{line}");
    Ok(if line.verdict == FigureVerdict::Passed { Exit::Passed } else { Exit::Failed })
}
/// What [`Options::write`] wrote.
fn read(path: &PathBuf, cpu: Device) -> Result<Vec<(&'static str, Result<Vec<Vec<f64>>>)>> {
    let all: BTreeMap<String, Tensor> = cpu.scoped(|| formats::safetensors::load(path))?.into_iter().collect();
    let of = |name: &str| (0..).map_while(|k| all.get(&format!("{name}.{k}"))).map(Tensor::to_vec::<f64>).collect();
    Ok(KERNELS.iter().map(|(name, ..)| (*name, of(name))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CPU beside the plain interpreter, as a card is compared beside the CPU; and every kernel must say something.
    #[test]
    fn kernels_that_devices_compute_apart() {
        let (cpu, plain) = (answers("cpu".parse().unwrap()), answers(Device::reference()));
        for ((name, _, most), ((_, a), (_, b))) in KERNELS.iter().zip(cpu.into_iter().zip(plain)) {
            let (a, b) = (a.unwrap_or_else(|e| panic!("{name}: {e}")), b.unwrap());
            agree(&a, &b, *most).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert!(b.iter().flatten().any(|x| *x != 0.0), "{name}");
        }
    }
    #[test]
    fn answers_that_are_others_and_agree() {
        let right = [vec![1.0, -2.0], vec![4.0]];
        assert_eq!(agree(&right, &right, EXACT), Ok(()));
        for (wrong, most) in [
            (vec![vec![1.0, -2.0]], 1.0),
            (vec![vec![1.0], vec![4.0]], 1.0),
            (vec![vec![1.0, -1.9], vec![4.0]], 1e-2),
            (vec![vec![1.0, f64::NAN], vec![4.0]], 1.0),
            (vec![vec![1.0, -2.0], vec![]], 1.0),
            (vec![vec![1.0, -2.0], vec![4.000001]], EXACT),
        ] {
            assert!(agree(&wrong, &right, most).is_err(), "{wrong:?}");
        }
        assert!(agree(&[], &[], 1.0).is_err());
    }
}
