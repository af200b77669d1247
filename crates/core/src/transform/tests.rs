//! What the generated tests of conformance do not reach: closures, cells, random numbers, errors, nesting by hand.
use super::*;
use crate::{Cell, DType, Device, ErrorKind, Rng, checkpoint, compile, no_grad, step};

fn on<R>(f: impl FnOnce() -> Result<R>) -> R {
    Device::reference().scoped(f).unwrap()
}
fn t(v: &[f64]) -> Tensor {
    Tensor::from_vec(v.to_vec(), [v.len()])
}
fn n(v: f64) -> Tensor {
    Tensor::from_vec(vec![v], ())
}
fn v(x: &Tensor) -> Vec<f64> {
    x.to_vec::<f64>().unwrap()
}

#[test]
fn gradients_of_gradients_to_the_fourth_order() {
    on(|| {
        let f = |x: Tensor| x.square().square().sum(..);
        let g1 = grad(f);
        let g2 = grad(|x: Tensor| g1(x).sum(..));
        let g3 = grad(|x: Tensor| g2(x).sum(..));
        let g4 = grad(|x: Tensor| g3(x).sum(..));
        assert_eq!([v(&g1(t(&[2.0]))), v(&g2(t(&[2.0]))), v(&g3(t(&[2.0]))), v(&g4(t(&[2.0])))], [[32.0], [48.0], [48.0], [24.0]]);
        Ok(())
    });
}
#[test]
fn derivatives_by_one_value_are_told_apart() {
    on(|| {
        // d/dx (x · d/dy (x + y)) = d/dx x = 1 (Siskind and Pearlmutter, 2005).
        let x = n(3.0);
        let inner = |x: &Tensor| grad(|y: Tensor| x + y)(x.clone());
        assert_eq!(v(&grad(|x: Tensor| &x * inner(&x))(x.clone())), [1.0]);
        assert_eq!(v(&jvp(|x: Tensor| &x * inner(&x), x.clone(), n(1.0)).1), [1.0]);
        let pushed = |x: &Tensor| jvp(|y: Tensor| x + y, x.clone(), n(1.0)).1;
        assert_eq!(v(&grad(|x: Tensor| &x * pushed(&x))(x.clone())), [1.0]);
        assert_eq!(v(&jvp(|x: Tensor| &x * pushed(&x), x.clone(), n(1.0)).1), [1.0]);
        // d/dx d/dy x y at y = x is 1, not 2.
        let product = |x: &Tensor| grad(|y: Tensor| x * y)(x.clone());
        assert_eq!(v(&grad(|x: Tensor| product(&x))(x.clone())), [1.0]);
        assert_eq!(v(&jvp(|x: Tensor| product(&x), x.clone(), n(1.0)).1), [1.0]);
        assert_eq!(v(&vmap(|x: Tensor| grad(|x: Tensor| product(&x))(x))(t(&[1.0, 2.0]))), [1.0, 1.0]);
        Ok(())
    });
}
#[test]
fn captured_tensors_that_are_tracked_get_their_gradient() {
    on(|| {
        let c = t(&[2.0, 3.0]).tracked();
        let x = Tensor::from_vec(vec![1.0, 2.0, 3.0, 4.0], [2, 2]);
        for y in [
            vmap(|x: Tensor| &x * &c)(x.clone()),
            jvp(|x: Tensor| x.square() * &c, x.clone(), x.ones_like()).1 * 0.5,
            grad(|x: Tensor| (x.square() * &c).sum(..) * 0.5)(x.clone()),
            vmap(|x: Tensor| grad(|x: Tensor| (x.square() * &c).sum(..) * 0.5)(x))(x.clone()),
            vmap(|x: Tensor| jvp(|x: Tensor| x.square() * &c, x.clone(), x.ones_like()).1 * 0.5)(x.clone()),
        ] {
            assert_eq!(v(&y), [2.0, 6.0, 6.0, 12.0]);
            assert_eq!(v(y.sum(..).backward()?.get(&c).unwrap()), [4.0, 6.0]);
        }
        // Of the input itself, when it is on the tape around.
        let x = t(&[1.0, 2.0]).tracked();
        let y = vmap(grad(|x: Tensor| &x * &x * &x))(x.clone());
        assert_eq!(v(y.sum(..).backward()?.get(&x).unwrap()), [6.0, 12.0]);
        // What is not to be differentiated leaves nothing on the tape.
        assert!(!no_grad(|| vmap(|x: Tensor| &x * &c)(Tensor::ones([2, 2]).cast(DType::F64))).is_tracked());
        assert!(!grad(|x: Tensor| x.square().sum(..))(t(&[1.0])).is_tracked());
        assert!(!vmap(|x: Tensor| grad(|x: Tensor| x.square().sum(..))(x))(Tensor::ones([2, 2])).is_tracked());
        Ok(())
    });
}
#[test]
fn closures_capture_what_another_transform_computes() {
    on(|| {
        let (xs, ys) = (t(&[1.0, 2.0]), t(&[10.0, 20.0, 30.0]));
        let table = vmap(|x: Tensor| {
            let doubled = &x * 2.0;
            vmap(|y: Tensor| &doubled * y)(ys.clone())
        })(xs.clone());
        assert_eq!(table.dims::<2>()?, [2, 3]);
        assert_eq!(v(&table), [20.0, 40.0, 60.0, 40.0, 80.0, 120.0]);
        let slopes = vmap(|x: Tensor| grad(|x: Tensor| vmap(|y: Tensor| x.square() * y)(ys.clone()).sum(..))(x))(xs);
        assert_eq!(v(&slopes), [120.0, 240.0]);
        Ok(())
    });
}
#[test]
fn code_may_look_at_data_where_there_is_some() {
    on(|| {
        let branch = |x: Tensor| if x.item::<f64>().unwrap() > 0.0 { x.square() } else { x.neg() };
        assert_eq!([v(&grad(branch)(n(3.0))), v(&grad(branch)(n(-3.0)))], [[6.0], [-1.0]]);
        assert_eq!([v(&jvp(branch, n(3.0), n(1.0)).1), v(&jvp(branch, n(-3.0), n(1.0)).1)], [[6.0], [-1.0]]);
        let read = vmap(|x: Tensor| x.item::<f64>().map(n))(t(&[1.0, 2.0]));
        assert_eq!(read.unwrap_err().kind().word(), "transform");
        let sized = vmap(|x: Tensor| x.nonzero())(Tensor::ones([2, 3]));
        assert_eq!(sized.error().unwrap().kind().word(), "transform");
        Ok(())
    });
}
#[test]
fn detach_and_no_grad_inside_hold_for_all_around() {
    on(|| {
        let half = |x: Tensor| &x * x.detach();
        let off = |x: Tensor| &x * no_grad(|| &x * 1.0);
        for f in [half as fn(Tensor) -> Tensor, off] {
            assert_eq!(v(&grad(f)(n(3.0))), [3.0]);
            assert_eq!(v(&jvp(f, n(3.0), n(1.0)).1), [3.0]);
            assert_eq!(v(&grad(|x: Tensor| vmap(f)(x).sum(..))(t(&[3.0]))), [3.0]);
            assert_eq!(v(&vmap(grad(f))(t(&[3.0]))), [3.0]);
        }
        // Around a transform it changes nothing of what is computed.
        assert_eq!(v(&no_grad(|| grad(|x: Tensor| x.square())(n(3.0)))), [6.0]);
        assert_eq!(v(&no_grad(|| jvp(|x: Tensor| x.square(), n(3.0), n(1.0)).1)), [6.0]);
        // It cuts those around, not one inside of it.
        let cut = jvp(|x: Tensor| &x * no_grad(|| jvp(|y: Tensor| y.square(), x.clone(), n(1.0)).1), n(3.0), n(1.0)).1;
        assert_eq!(v(&cut), [6.0]);
        Ok(())
    });
}
#[test]
fn cells_inside() {
    on(|| {
        let cell = Cell::new(&n(2.0), true)?;
        let y = vmap(|x: Tensor| x * cell.get())(t(&[1.0, 2.0]));
        assert_eq!(v(y.sum(..).backward()?.of(&cell).unwrap()), [3.0]);
        // A write that all examples share is one write.
        let count = Cell::new(&n(0.0), false)?;
        let y = vmap(|x: Tensor| {
            count.set(&(count.detached() + 1.0)).unwrap();
            x + count.detached()
        })(t(&[1.0, 2.0]));
        assert_eq!((v(&y), v(&count.detached())), (vec![2.0, 3.0], vec![1.0]));
        // In parts too.
        let y = vmap_with(
            |x: Tensor| {
                count.set(&(count.detached() + 1.0)).unwrap();
                x + count.detached()
            },
            Vmap::default().chunk_size(2),
        )(t(&[1.0, 2.0, 3.0]));
        assert_eq!((v(&y), v(&count.detached())), (vec![3.0, 4.0, 5.0], vec![2.0]));
        let own = |x: Tensor| cell.set(&x).map(|()| cell.detached() * 2.0);
        assert_eq!(vmap(own)(t(&[1.0, 2.0])).unwrap_err().kind().word(), "transform");
        let y = vmap_with(own, Vmap::default().cells(Cells::PerExample))(t(&[1.0, 2.0]))?;
        assert_eq!((v(&y), v(&cell.detached()), cell.version()), (vec![2.0, 4.0], vec![2.0], 0));
        // What a cell gives back is no function of what it was given, forwards as backwards.
        let through = |x: Tensor| {
            cell.set(&x).unwrap();
            &x * cell.detached()
        };
        assert_eq!(v(&jvp(through, n(3.0), n(1.0)).1), [3.0]);
        assert_eq!(v(&grad(through)(n(3.0))), [3.0]);
        assert_eq!(v(&step(|| Ok(jvp(through, n(4.0), n(1.0)).1))?), [4.0]);
        assert_eq!(v(&cell.detached()), [4.0]);
        Ok(())
    });
}
#[test]
fn random_numbers_of_examples() {
    on(|| {
        let draw = |options: Vmap| -> Result<Vec<u32>> {
            let rng = Rng::new(7)?;
            vmap_with(|x: Tensor| rng.bits([5]) + x.cast(DType::U32), options)(Tensor::zeros([4])).to_vec::<u32>()
        };
        let one = Rng::new(7)?.bits([4, 5]).to_vec::<u32>()?;
        assert_eq!(draw(Vmap::default())?, one);
        let same = draw(Vmap::default().randomness(Randomness::Same))?;
        assert!((0..4).all(|k| same[k * 5..k * 5 + 5] == Rng::new(7).unwrap().bits([5]).to_vec::<u32>().unwrap()));
        for randomness in [Randomness::Different, Randomness::Same] {
            let whole = Vmap::default().randomness(randomness);
            assert_eq!(draw(whole.clone())?, draw(whole.chunk_size(3))?, "{randomness:?}");
        }
        // A key of its own for each example: the draws it would make alone, by any nesting.
        let keys = Rng::new(3)?.bits([2, 3, 4]);
        let of_key = |key: Tensor| Tensor::apply(crate::Op::RandomBits { shape: crate::Shape::new(&[6]).unwrap() }, crate::Arg::None, &[&key]);
        let nested = vmap(vmap(of_key))(keys.clone()).to_vec::<u32>()?;
        for k in 0..6 {
            let key = keys.reshape([6, 4]).select(0, k as isize);
            assert_eq!(nested[k * 6..k * 6 + 6], of_key(key).to_vec::<u32>()?);
        }
        // What is drawn without the example is each example's own all the same.
        let rng = Rng::new(1)?;
        let dropped = vmap_with(|_: Tensor| crate::functional::dropout(&Tensor::ones([64]), 0.5, &rng), Vmap::default())(Tensor::zeros([2])).to_vec::<f32>()?;
        assert_ne!(dropped[..64], dropped[64..]);
        let dropped = vmap_with(|x: Tensor| crate::functional::dropout(&(x + Tensor::ones([64])), 0.5, &rng), Vmap::default().randomness(Randomness::Same))(
            Tensor::zeros([2]),
        )
        .to_vec::<f32>()?;
        assert_eq!(dropped[..64], dropped[64..]);
        Ok(())
    });
}
#[test]
fn axes_and_structures() {
    on(|| {
        let x = Tensor::from_vec((0..6).map(f64::from).collect(), [2, 3]);
        let y = vmap_with(|(a, b): (Tensor, Tensor)| (&a + &b, b.sum(..)), Vmap::default().in_axes([Some(1), None]).out_axes([Some(-1), None]))((
            x.clone(),
            t(&[1.0, 2.0]),
        ));
        assert_eq!((v(&y.0), v(&y.1)), (vec![1.0, 2.0, 3.0, 5.0, 6.0, 7.0], vec![3.0]));
        // Parts are joined where they were cut.
        let parts = vmap_with(|a: Tensor| &a + 1.0, Vmap::default().in_axes([Some(1)]).out_axes([Some(1)]).chunk_size(2))(x.clone());
        assert_eq!(v(&parts), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let repeated = vmap_with(|()| t(&[1.0, 2.0]), Vmap::default().axis_size(3))(());
        assert_eq!(repeated.dims::<2>()?, [3, 2]);
        let many = vmap(|x: BTreeMap<&str, Vec<Tensor>>| x.map(&mut |t| t * 2.0))(BTreeMap::from([("a", vec![t(&[1.0]), t(&[2.0])])]));
        assert_eq!(v(&many["a"][1]), [4.0]);
        assert_eq!(v(&vmap(|x: Tensor| x.square())(Tensor::zeros([0]).cast(DType::F64))), [0.0; 0]);
        Ok(())
    });
}
#[test]
fn errors_are_carried() {
    on(|| {
        let failed = Tensor::failed(crate::Error::new("planted", ErrorKind::Argument("first".into())));
        let word = |t: Tensor| t.error().unwrap().kind().word();
        let first = |t: Tensor| t.error().unwrap().op();
        assert_eq!(first(grad(|x: Tensor| x.sum(..))(failed.clone())), "planted");
        assert_eq!(first(vmap(|x: Tensor| x * 2.0)(failed.clone())), "planted");
        assert_eq!(first(vmap(|(x, y): (Tensor, Tensor)| x * y)((failed.clone(), t(&[1.0])))), "planted");
        assert_eq!(first(jvp(|x: Tensor| x * 2.0, failed.clone(), failed.clone()).1), "planted");
        assert_eq!(first(jacobian(|x: Tensor| x * 2.0, JacobianMode::Forward)(failed.clone())), "planted");
        assert_eq!(first(jacobian(|x: Tensor| x * 2.0, JacobianMode::Backward)(failed.clone())), "planted");
        // Shapes in errors are those of one example.
        let why = vmap(|x: Tensor| x.reshape([5]))(Tensor::zeros([2, 3])).error().unwrap().to_string();
        assert!(why.contains("[3]") && !why.contains("[2"), "{why}");
        assert_eq!(word(grad(|x: Tensor| x * 2.0)(t(&[1.0, 2.0]))), "backward");
        assert_eq!(word(grad(|x: Tensor| x.cast(DType::F32).sum(..))(Tensor::ones([2]).cast(DType::I64))), "dtype");
        assert_eq!(word(grad(|x: Tensor| x.argmax(0))(t(&[1.0, 2.0]))), "dtype");
        assert_eq!(word(jvp(|x: Tensor| x, t(&[1.0]), t(&[1.0, 2.0])).1), "shape");
        assert_eq!(word(jvp(|x: Tensor| x, t(&[1.0]), Tensor::ones([1])).1), "dtype");
        assert_eq!(word(vmap(|(a, b): (Tensor, Tensor)| a + b)((t(&[1.0]), t(&[1.0, 2.0])))), "shape");
        assert_eq!(word(vmap(|x: Tensor| x)(n(1.0))), "axis");
        assert_eq!(word(vmap_with(|x: Tensor| x, Vmap::default().in_axes([None]))(n(1.0))), "argument");
        assert_eq!(word(vmap_with(|x: Tensor| x, Vmap::default().out_axes([None]))(t(&[1.0]))), "transform");
        assert_eq!(word(vmap(|x: Tensor| x.reshape([1; 8]))(t(&[1.0]))), "argument");
        assert_eq!(word(vjp(|x: Tensor| x, t(&[1.0])).1(t(&[1.0, 2.0]))), "shape");
        assert_eq!(vmap(|x: Tensor| x.ok()?.reshape([7]).ok())(t(&[1.0, 2.0])).unwrap_err().kind().word(), "shape");
        // Other examples go on where one output failed.
        let (good, bad) = vmap(|x: Tensor| (&x * 2.0, x.reshape([7])))(t(&[1.0, 2.0]));
        assert_eq!((v(&good), word(bad)), (vec![2.0, 4.0], "shape"));
        Ok(())
    });
}
#[test]
fn with_checkpoints_and_compiled_functions() {
    on(|| {
        let f = |x: Tensor| checkpoint(&[&x], |x| Ok((&x[0] * &x[0] * &x[0]).sum(..))).unwrap();
        let x = t(&[1.0, 2.0]);
        assert_eq!(v(&grad(f)(x.clone())), [3.0, 12.0]);
        assert_eq!(v(&grad(|x: Tensor| grad(f)(x).sum(..))(x.clone())), [6.0, 12.0]);
        assert_eq!(v(&hvp(f)(x.clone(), t(&[1.0, 10.0]))), [6.0, 120.0]);
        assert_eq!(v(&vmap(grad(f))(x.reshape([2, 1]))), [3.0, 12.0]);
        let step = compile(|x: &[Tensor]| Ok(vec![vmap(grad(|x: Tensor| x.square()))(x[0].clone())]));
        assert_eq!(v(&step.call(&[&x])?[0]), [2.0, 4.0]);
        let inner = compile(|x: &[Tensor]| Ok(vec![x[0].square()]));
        assert_eq!(v(&vmap(|x: Tensor| inner.call(&[&x]).unwrap()[0].clone())(x.clone())), [1.0, 4.0]);
        Ok(())
    });
}
#[test]
fn a_panic_inside_leaves_no_transform_at_work() {
    let planted =
        std::panic::catch_unwind(|| Device::reference().scoped(|| vmap(|x: Tensor| if x.rank() == 0 { panic!("planted") } else { x })(t(&[1.0])).error()));
    assert!(planted.is_err() && !any());
}
#[test]
fn what_nobody_can_name_any_more_is_let_go_of() {
    on(|| {
        let y = vmap(|x: Tensor| {
            let mut y = x;
            for _ in 0..200 {
                y = (&y * 1.5).sum_keepdim(0).expand([16]) * (1.0 / 16.0) + 0.0;
            }
            sweep();
            assert!(frame::known() <= 2, "{} values are kept", frame::known());
            y
        })(Tensor::ones([4, 16]));
        y.materialize()?;
        Ok(())
    });
}
