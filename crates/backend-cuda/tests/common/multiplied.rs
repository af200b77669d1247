//! Products of drawn sizes and layouts, near the sums in f64 of the host.
use adamant_core::{DType, Device, Tensor};

/// Numbers of a small set, which 16 bits hold.
struct Drawn(u64);
impl Drawn {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
    fn of(&mut self, choices: &[usize]) -> usize {
        choices[self.next() as usize % choices.len()]
    }
    fn values(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| (self.next() % 33) as f32 / 16.0 - 1.0).collect()
    }
}
/// A matrix of these rows and columns, kept by rows or by columns; its elements by rows.
fn matrix(drawn: &mut Drawn, [rows, columns]: [usize; 2], dtype: DType) -> (Tensor, Vec<f32>) {
    let values = drawn.values(rows * columns);
    if drawn.next() % 2 == 0 {
        return (Tensor::from_vec(values.clone(), [rows, columns]).cast(dtype), values);
    }
    let by_columns = Tensor::from_vec(values.clone(), [columns, rows]).cast(dtype);
    let by_rows = (0..rows * columns).map(|k| values[k % columns * rows + k / columns]).collect();
    (by_columns.t(), by_rows)
}
/// One product of drawn sizes and layouts, alone or with an epilogue.
pub fn check(device: Device, dtype: DType, epilogue: bool, seed: u64) {
    let mut drawn = Drawn(seed);
    let sizes = [1, 7, 16, 17, 40, 64, 72, 129, 200];
    let [rows, depth, columns] = [drawn.of(&sizes), drawn.of(&sizes), drawn.of(&sizes)];
    let case = format!("{dtype} {rows} x {depth} x {columns}, epilogue {epilogue}, seed {seed}");
    let (got, a, b) = device.scoped(|| {
        let (x, a) = matrix(&mut drawn, [rows, depth], dtype);
        let (y, b) = matrix(&mut drawn, [depth, columns], dtype);
        let product = x.matmul(&y);
        let result = if epilogue { product.relu() } else { product };
        (result.cast(DType::F32).to_vec::<f32>(), a, b)
    });
    let got = got.unwrap_or_else(|e| panic!("{case}: {e}"));
    // Sums of sixteenths are exact in f32; the result is rounded to its dtype.
    let near = match dtype {
        DType::F16 => 1.0 / 1024.0,
        DType::BF16 => 1.0 / 128.0,
        _ => 1e-6,
    };
    for (k, value) in got.iter().enumerate() {
        let (row, column) = (k / columns, k % columns);
        let sum: f64 = (0..depth).map(|n| f64::from(a[row * depth + n]) * f64::from(b[n * columns + column])).sum();
        let expected = if epilogue { sum.max(0.0) } else { sum };
        assert!((f64::from(*value) - expected).abs() <= near * expected.abs(), "{case}: element {k} is {value}, {expected} by the host");
    }
}
