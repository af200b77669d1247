//! The whole path on the reference device: record, read, differentiate, differentiate again.
use adamant_core::*;

fn on_reference<R>(f: impl FnOnce() -> R) -> R {
    Device::reference().scoped(f)
}

#[test]
fn gradients_of_a_small_expression() -> Result<()> {
    on_reference(|| {
        let x = Tensor::from_vec(vec![1.0f64, 2.0, 3.0], [3]).tracked();
        let w = Tensor::from_vec(vec![0.5f64; 6], [3, 2]).tracked();
        let y = (x.reshape([1, 3]).matmul(&w).exp() + 1.0).log().sum(..);
        let g = y.backward()?;
        let gx = g.get(&x).ok_or_else(|| Error::new("test", ErrorKind::Internal("x not reached".into())))?;
        let s = 1.0 / (1.0 + (-3.0f64).exp());
        for v in gx.to_vec::<f64>()? {
            assert!((v - s).abs() < 1e-12, "{v} {s}");
        }
        Ok(())
    })
}
#[test]
fn second_order() -> Result<()> {
    on_reference(|| {
        let x = Tensor::from_vec(vec![2.0f64], [1]).tracked();
        let y = (&x * &x * &x).sum(..);
        let g = y.backward_graph()?;
        let gx = g.get(&x).cloned().unwrap_or_else(|| x.zeros_like());
        let h = gx.sum(..).backward()?;
        assert_eq!(h.get(&x).map(|t| t.to_vec::<f64>()).transpose()?, Some(vec![12.0]));
        Ok(())
    })
}
#[test]
fn an_error_names_both_shapes_and_the_line() {
    on_reference(|| {
        let a = Tensor::zeros([2, 3]);
        let b = Tensor::zeros([4, 5]);
        let line = line!() + 1;
        let e = a.matmul(&b).exp().to_vec::<f32>().unwrap_err().to_string();
        assert!(e.contains("[2, 3]") && e.contains("[4, 5]") && e.contains(&format!("smoke.rs:{line}")), "{e}");
    });
}
#[test]
fn rng_is_the_published_philox() {
    assert_eq!(rng::philox([0, 0], [0, 0, 0, 0]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
}
#[test]
fn a_cell_refuses_another_shape_and_commits_a_step() -> Result<()> {
    on_reference(|| {
        let c = Cell::new(&Tensor::zeros([2]), true)?;
        assert!(c.set(&Tensor::zeros([3])).is_err());
        step(|| c.set(&(c.get() + 1.0f32)))?;
        assert_eq!(c.get().to_vec::<f32>()?, [1.0, 1.0]);
        Ok(())
    })
}
