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
                g.materialize()?;
                step(|| {
                    let m = cells[1].detached() * 0.9 + &g * 0.1;
                    let v = cells[2].detached() * 0.99 + &g * &g * 0.01;
                    let w = cells[0].detached() * 0.999;
                    cells[0].set(&(w - (&m * 0.01) / ((&v * 1.5).sqrt() + 1e-8)))?;
                    cells[1].set(&m)?;
                    cells[2].set(&v)
                })?;
            }
            let mut all = vec![];
            for c in &cells {
                all.extend(c.detached().to_vec::<f64>()?);
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

/// Optimizer steps, an activation and its backward over few elements take another way than over many; each element is the
/// same in every bit.
#[test]
fn few_elements_are_computed_as_many() -> Result<()> {
    let value = |k: usize, i: usize| {
        [0.0, -0.0, f32::NAN, f32::INFINITY, -1e-40][(i + k) % 5] * ((i % 7 == 3) as u8 as f32) + ((i * 37 + k * 101) % 97) as f32 * 0.02 - 0.9
    };
    let of = |k: usize, n: usize| Tensor::from_vec((0..n).map(|i| value(k, i)).collect::<Vec<f32>>(), [n]);
    let run = |n: usize| -> Result<Vec<Vec<u32>>> {
        let cells = (0..3).map(|k| Cell::new(&of(k, n).abs(), false)).collect::<Result<Vec<Cell>>>()?;
        let hidden = Cell::new(&of(3, n), true)?;
        for t in 0..3 {
            let g = of(5 + t, n);
            step(|| {
                let rate = Tensor::scalar(0.01f32);
                let m = cells[1].detached() * 0.9 + &g * 0.1;
                let v = cells[2].detached() * 0.99 + &g * &g * 0.01;
                cells[0].set(&(cells[0].detached() - (&m * &rate) / ((&v * 1.5).sqrt() + 1e-8)))?;
                cells[1].set(&m)?;
                cells[2].set(&v)
            })?;
            // In the place of what it reads.
            step(|| hidden.set(&hidden.detached().detach().relu()))?;
            step(|| hidden.set(&(hidden.detached().detach() + &g)))?;
        }
        let loss = (hidden.get().relu() * of(9, n)).sum(..);
        let mut all = vec![loss.backward()?.of(&hidden).cloned().unwrap_or_else(|| Tensor::zeros([n]))];
        all.extend(cells.iter().chain([&hidden]).map(|c| c.detached().detach()));
        all.iter().map(|t| Ok(t.to_vec::<f32>()?[..n.min(1000)].iter().map(|v| v.to_bits()).collect())).collect()
    };
    Device::cpu()?.scoped(|| {
        let many = run(5000)?;
        for n in [1, 2, 15, 16, 17, 40, 1000] {
            for (k, (few, many)) in run(n)?.iter().zip(&many).enumerate() {
                assert_eq!(few[..], many[..n], "{n} elements, tensor {k}");
            }
        }
        Ok(())
    })
}
