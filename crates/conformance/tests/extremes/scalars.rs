//! Every scalar function that rounds: the table's exact meaning in f64, and the CPU's loops in f64 and f32.
use super::{
    big::{Big, F32, F64, Grid},
    draw::Draw,
    functions,
    report::Measured,
};
use adamant_core::{
    DType, Device, Tensor,
    scalar::{Binary, Unary},
};

/// As f64, which holds f32 exactly.
fn computed(device: Device, dtype: DType, inputs: &[&[f64]], f: impl FnOnce(&[Tensor]) -> Tensor) -> Vec<f64> {
    device.scoped(|| {
        let inputs: Vec<Tensor> = inputs.iter().map(|x| Tensor::from_vec(x.to_vec(), [x.len()]).cast(dtype)).collect();
        f(&inputs).to_vec_as::<f64>().expect("a value of each")
    })
}
pub struct Paths {
    pub cpu: Device,
    pub count: usize,
    pub seed: u64,
}
const GRIDS: [(Grid, DType, &str); 2] = [(F64, DType::F64, "f64"), (F32, DType::F32, "f32")];

/// One unary row in each dtype: on the CPU, and by the table itself.
pub fn unary(paths: &Paths, f: Unary) -> Vec<Measured> {
    let mut all = vec![];
    for (grid, dtype, word) in GRIDS.into_iter().filter(|g| f.infer(g.1) == Ok(g.1)) {
        let mut draw = Draw::new(paths.seed, f.name());
        let x: Vec<f64> = (0..paths.count).map(|_| draw.argument(grid, f.row().domain)).collect();
        let exact: Vec<f64> = x.iter().map(|x| f.row().exact_in(dtype)(*x)).collect();
        let cpu = computed(paths.cpu, dtype, &[&x], |x| x[0].unary(f));
        let (mut loops, mut table) = (Measured::new(format!("{word} {}", f.name())), Measured::new(format!("{word} {}, table", f.name())));
        for k in 0..x.len() {
            let Some(want) = functions::unary(f, x[k], exact[k]) else { return vec![] };
            if is_convention(f, grid, x[k]) {
                continue;
            }
            let add = |to: &mut Measured, got: f64| {
                let error = grid.error(got, &want);
                let slope = if error > 1.0 { functions::conditioned(f, x[k]) } else { None };
                to.ill = to.ill.or(slope.as_ref().map(|s| s.0));
                let permitted = slope.map_or(0.0, |(_, s)| (s.abs() * grid.ulp(&Big::from(x[k])) / grid.ulp(&want) / 2.0).to_f64());
                to.add_conditioned(error, error / (1.0 + permitted), || format!("{:e}: {got:e} and not {want}", x[k]));
            };
            add(&mut loops, cpu[k]);
            if dtype == DType::F64 {
                add(&mut table, exact[k]);
            }
        }
        all.push(loops);
        if dtype == DType::F64 {
            all.push(table);
        }
    }
    all
}
/// Where PyTorch's f32 overflows on the way to a finite value, and ours does by the table (`narrow`).
fn is_convention(f: Unary, grid: Grid, x: f64) -> bool {
    grid == F32
        && match f {
            Unary::Gelu => 2.0 * x > F32.largest,
            Unary::Sinc => x.abs() * 4.0 > F32.largest,
            _ => false,
        }
}

pub fn binary(paths: &Paths, f: Binary) -> Vec<Measured> {
    let mut all = vec![];
    for (grid, dtype, word) in GRIDS.into_iter().filter(|g| f.infer(g.1) == Ok(g.1)) {
        let mut draw = Draw::new(paths.seed, f.name());
        let (left, right) = f.row().domain;
        let mut pair = |_| {
            let x = draw.argument(grid, left);
            let y = match draw.below(8) {
                0 => x,
                1 => Draw::on(grid, x + draw.sign() * draw.magnitude(-12.0, 2.0)),
                2 => -x,
                _ => draw.argument(grid, right),
            };
            (x, if f == Binary::Polygamma { draw.below(6) as f64 } else { y })
        };
        let (x, y): (Vec<f64>, Vec<f64>) = (0..paths.count).map(&mut pair).unzip();
        let exact: Vec<f64> = x.iter().zip(&y).map(|(x, y)| (f.row().exact)(*x, *y)).collect();
        let cpu = computed(paths.cpu, dtype, &[&x, &y], |x| x[0].binary(f, &x[1]));
        let (mut loops, mut table) = (Measured::new(format!("{word} {}", f.name())), Measured::new(format!("{word} {}, table", f.name())));
        for k in 0..x.len() {
            let Some(want) = functions::binary(f, x[k], y[k]) else { continue };
            loops.add(grid.error(cpu[k], &want), || format!("({:e}, {:e}): {:e} and not {want}", x[k], y[k], cpu[k]));
            if dtype == DType::F64 {
                table.add(grid.error(exact[k], &want), || format!("({:e}, {:e}): {:e} and not {want}", x[k], y[k], exact[k]));
            }
        }
        all.push(loops);
        if dtype == DType::F64 {
            all.push(table);
        }
    }
    all
}
