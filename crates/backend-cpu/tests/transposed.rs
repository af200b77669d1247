//! Random functions of random views: permuted axes, steps, broadcasting. The bits are those of row-major copies, forward and
//! backward, and an element-wise result lies as its operands do.
use adamant_backend_cpu::{Context, CpuBackend};
use adamant_core::{DType, Device, MAX_RANK, Result, Tensor, rng::Rng, schedule::take_stats};

/// Cases of each test.
const CASES: u64 = 400;

fn device(threads: usize) -> Result<Device> {
    Ok(Context::new(CpuBackend::builder().threads(threads))?.device())
}
/// Random numbers below a bound.
struct Draws(u64);
impl Draws {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) as usize % n
    }
    fn order(&mut self, rank: usize) -> Vec<isize> {
        let mut order: Vec<isize> = (0..rank as isize).collect();
        (1..rank).rev().for_each(|k| order.swap(k, self.below(k + 1)));
        order
    }
    fn shape(&mut self) -> Vec<usize> {
        let rank = 1 + self.below(MAX_RANK.min(4));
        (0..rank).map(|_| [1, 2, 3, 5, 8, 17, 40][self.below(7)]).collect()
    }
    /// One of so many elements that operands which lie across it are straightened.
    fn large(&mut self) -> Vec<usize> {
        loop {
            let rank = 2 + self.below(2);
            let shape: Vec<usize> = (0..rank).map(|_| [1, 3, 9, 64, 130, 257, 600][self.below(7)]).collect();
            if (16 * 1024..400_000).contains(&shape.iter().product::<usize>()) {
                return shape;
            }
        }
    }
    /// A tensor of a shape that lies by `order`, in memory already.
    fn lying(&mut self, shape: &[usize], order: &[isize], dtype: DType) -> Result<Tensor> {
        let lies: Vec<usize> = order.iter().map(|&axis| shape[axis as usize]).collect();
        let n: usize = shape.iter().product();
        let values: Vec<f64> = (0..n).map(|_| self.below(1000) as f64 / 250.0 - 2.0).collect();
        let x = Tensor::from_vec(values, lies).cast(dtype);
        x.materialize()?;
        let x = x.permute(&inverse(order)[..]);
        x.materialize()?;
        Ok(x)
    }
}
fn inverse(order: &[isize]) -> Vec<isize> {
    let mut inverse = vec![0; order.len()];
    order.iter().zip(0..).for_each(|(&axis, k)| inverse[axis as usize] = k);
    inverse
}
/// The same elements, row-major.
fn row_major(x: &Tensor) -> Result<Tensor> {
    let copy = Tensor::from_vec(x.to_vec_as::<f64>()?, x.shape()?).cast(x.dtype()?);
    copy.materialize()?;
    Ok(copy)
}
fn bits(x: &Tensor) -> Result<Vec<u64>> {
    Ok(x.to_vec_as::<f64>()?.into_iter().map(f64::to_bits).collect())
}
type Binary = fn(&Tensor, &Tensor) -> Tensor;
const BINARY: [(&str, Binary); 6] = [
    ("add", |x, y| x + y),
    ("x relu(y)", |x, y| x * y.relu()),
    ("maximum", |x, y| x.maximum(y)),
    ("where", |x, y| x.gt(y).where_(x, &y.exp())),
    ("atan2", |x, y| x.atan2(y)),
    ("tanh x - y", |x, y| x.tanh() - y),
];
type Unary = fn(&Tensor) -> Tensor;
const UNARY: [(&str, Unary); 5] =
    [("relu", Tensor::relu), ("sigmoid", Tensor::sigmoid), ("abs", Tensor::abs), ("1 / x", Tensor::reciprocal), ("square", Tensor::square)];

#[test]
fn an_element_wise_result_lies_as_its_operands() -> Result<()> {
    device(2)?.scoped(|| {
        let mut draws = Draws(7);
        for case in 0..CASES {
            let shape = draws.shape();
            let order = draws.order(shape.len());
            let dtype = [DType::F32, DType::F64, DType::BF16, DType::F16][draws.below(4)];
            let x = draws.lying(&shape, &order, dtype)?;
            let (name, f) = UNARY[draws.below(UNARY.len())];
            let (y, expected) = (f(&x), f(&row_major(&x)?));
            y.materialize()?;
            assert_eq!(bits(&y)?, bits(&expected)?, "case {case}: {name} of {shape:?} by {order:?}");
            // As the operand lies, it is row-major.
            let back = y.permute(&order[..]);
            back.materialize()?;
            take_stats();
            back.reshape([-1]).materialize()?;
            assert_eq!(take_stats().kernels, 0, "case {case}: {name} of {shape:?} by {order:?} moved");
        }
        Ok(())
    })
}
#[test]
fn two_operands_that_lie_differently_give_a_row_major_result() -> Result<()> {
    device(2)?.scoped(|| {
        let mut draws = Draws(11);
        let x = draws.lying(&[40, 30], &[1, 0], DType::F32)?;
        let y = draws.lying(&[40, 30], &[0, 1], DType::F32)?;
        let wide = draws.lying(&[40, 30], &[1, 0], DType::F64)?;
        let moved = |z: Tensor| -> Result<u64> {
            z.materialize()?;
            take_stats();
            z.reshape([-1]).materialize()?;
            Ok(take_stats().kernels)
        };
        assert_eq!((moved(&x + &y)?, moved(&y + &x)?), (0, 0));
        // More bytes lie transposed: so does the result.
        assert_eq!((moved(wide.cast(DType::F32) + &y)?, moved(&x + 1.0)?), (1, 1));
        // What is wanted row-major is made so at once.
        take_stats();
        x.relu().reshape([-1]).materialize()?;
        assert_eq!(take_stats().kernels, 1);
        Ok(())
    })
}
#[test]
fn views_have_the_bits_of_copies() -> Result<()> {
    for (threads, seed) in [(1, 1), (2, 2)] {
        device(threads)?.scoped(|| {
            let mut draws = Draws(seed);
            for case in 0..CASES {
                let shape = if case % 8 == 0 { draws.large() } else { draws.shape() };
                let rank = shape.len();
                let orders = [draws.order(rank), draws.order(rank)];
                let x = draws.lying(&shape, &orders[0], DType::F32)?;
                // The second may be broadcast, or every other element of a longer axis.
                let axis = draws.below(rank);
                let y = match draws.below(3) {
                    0 => draws.lying(&shape.iter().enumerate().map(|(k, &n)| if k == axis { 1 } else { n }).collect::<Vec<_>>(), &orders[1], DType::F32)?,
                    1 => {
                        let long: Vec<usize> = shape.iter().enumerate().map(|(k, &n)| if k == axis { 2 * n } else { n }).collect();
                        draws.lying(&long, &orders[1], DType::F32)?.slice(axis, 0, 2 * shape[axis], 2)
                    }
                    _ => draws.lying(&shape, &orders[1], DType::F32)?,
                };
                let (name, f) = BINARY[draws.below(BINARY.len())];
                let reduced: Vec<isize> = (0..rank as isize).filter(|_| draws.below(2) == 0).collect();
                let is_maximum = draws.below(2) == 0;
                let run = |x: &Tensor, y: &Tensor| -> Result<Vec<Vec<u64>>> {
                    let (x, y) = (x.tracked(), y.tracked());
                    let z = f(&x, &y);
                    z.materialize()?;
                    let kept = if is_maximum && !reduced.is_empty() { z.amax(&reduced[..]) } else { z.sum(&reduced[..]) };
                    let grads = (&kept * &kept.sin()).sum(..).backward()?;
                    let of = |t: &Tensor| grads.get(t).map_or(Ok(Vec::new()), bits);
                    Ok(vec![bits(&z)?, bits(&kept)?, of(&x)?, of(&y)?])
                };
                let (of_views, of_copies) = (run(&x, &y)?, run(&row_major(&x)?, &row_major(&y)?)?);
                for (what, (view, copy)) in ["result", "reduced", "x's gradient", "y's gradient"].iter().zip(of_views.iter().zip(&of_copies)) {
                    assert_eq!(view, copy, "case {case}: {what} of {name} of {shape:?} by {orders:?}, reduced {reduced:?}, maximum {is_maximum}");
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}
/// Draws are counted row-major, wherever the operands beside them lie.
#[test]
fn random_numbers_and_places_keep_to_the_row_major_order() -> Result<()> {
    device(2)?.scoped(|| {
        let mut draws = Draws(3);
        let x = draws.lying(&[24, 7], &[1, 0], DType::F32)?;
        let made = |x: &Tensor| -> Result<Vec<u64>> {
            let kept = adamant_core::functional::dropout(x, 0.4, &Rng::new(5)?);
            kept.materialize()?;
            let placed = x.triu(1) * 2.0;
            placed.materialize()?;
            Ok([bits(&kept)?, bits(&placed)?].concat())
        };
        assert_eq!(made(&x)?, made(&row_major(&x)?)?);
        Ok(())
    })
}
