//! A kernel with several outputs, each in the buffer of one of its inputs, reads before it writes.
use adamant_backend_cpu as _;
use adamant_core::*;
#[test]
fn several_outputs_in_the_buffers_of_several_inputs() -> Result<()> {
    let run = |d: Device, n: usize| {
        d.scoped(|| -> Result<Vec<f64>> {
            let cells: Vec<Cell> = (0..3)
                .map(|k| Cell::new(&Tensor::from_vec((0..n).map(|i| ((i * 7 + k * 3) % 11) as f64 * 0.1).collect::<Vec<f64>>(), [n]), false))
                .collect::<Result<_>>()?;
            for t in 0..3 {
                let g = Tensor::from_vec((0..n).map(|i| ((i * 5 + t) % 13) as f64 * 0.01 - 0.05).collect::<Vec<f64>>(), [n]);
                g.eval()?;
                step(|| {
                    let m = cells[1].read() * 0.9 + &g * 0.1;
                    let v = cells[2].read() * 0.99 + &g * &g * 0.01;
                    let w = cells[0].read() * 0.999;
                    cells[0].set(&(w - (&m * 0.01) / ((&v * 1.5).sqrt() + 1e-8)))?;
                    cells[1].set(&m)?;
                    cells[2].set(&v)
                })?;
            }
            let mut all = vec![];
            for c in &cells {
                all.extend(c.read().to_vec::<f64>()?);
            }
            Ok(all)
        })
    };
    for n in [1, 3, 17, 1000, 5000] {
        let (a, b) = (run(Device::reference(), n)?, run(Device::cpu()?, n)?);
        let bad = a.iter().zip(&b).position(|(x, y)| (x - y).abs() > 1e-12 || y.is_nan());
        assert_eq!(bad, None, "n {n}: {:?} {:?}", bad.map(|k| a[k]), bad.map(|k| b[k]));
    }
    Ok(())
}
