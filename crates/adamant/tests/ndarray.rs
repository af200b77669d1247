//! Owned arrays in row-major order go to the CPU and come back around the same vector.
#![cfg(feature = "ndarray")]
use adamant::{DType, Device, Result, Tensor};
use ndarray::{ArcArray, Array, Axis, IxDyn, arr0, arr1, arr2, s};

#[test]
fn an_owned_array_that_is_copied() -> Result<()> {
    Device::cpu()?.scoped(|| {
        let a = Array::from_shape_fn((100, 100), |(i, j)| (i * j) as f32);
        let (place, copy) = (a.as_ptr() as usize, a.clone());
        let x = Tensor::from_ndarray(a);
        let y = (&x * 2.0).to_ndarray::<f32>()?;
        assert_eq!(y, (&copy * 2.0).into_dyn());
        // Whoever still holds the tensor keeps its vector; the last one gives it up.
        let held = x.clone().into_ndarray::<f32>()?;
        assert_ne!(held.as_ptr() as usize, place);
        let b = x.into_ndarray::<f32>()?;
        assert_eq!(b.as_ptr() as usize, place);
        assert_eq!(b, copy.into_dyn());
        Ok(())
    })
}
#[test]
fn elements_that_change_their_place() -> Result<()> {
    Device::reference().scoped(|| {
        let a = Array::from_shape_fn((2, 3, 4), |(i, j, k)| (100 * i + 10 * j + k) as i64);
        for view in [a.view().into_dyn(), a.t().into_dyn(), a.slice(s![.., 1.., ..;2]).into_dyn(), a.slice(s![1, ..;-1, ..]).into_dyn()] {
            let x = Tensor::from_ndarray(view.clone());
            assert_eq!((x.dtype()?, &x.shape()?.to_vec()[..]), (DType::I64, view.shape()));
            assert_eq!(x.to_ndarray::<i64>()?, view);
            assert_eq!(x.into_ndarray::<i64>()?, view);
        }
        // The tail of a vector, a shared array, no axes, no elements.
        assert_eq!(Tensor::from_ndarray(a.clone().slice_move(s![1.., .., ..])).to_ndarray::<i64>()?, a.slice(s![1.., .., ..]).into_dyn());
        let shared: ArcArray<i64, _> = a.clone().into();
        assert_eq!(Tensor::from_ndarray(shared).to_ndarray::<i64>()?, a.clone().into_dyn());
        assert_eq!(Tensor::from_ndarray(arr0(true)).item::<bool>()?, true);
        assert_eq!(Tensor::from_ndarray(Array::<f32, _>::zeros((0, 3))).dims::<2>()?, [0, 3]);
        // What a tensor's own layout permutes comes out in row-major order.
        let x = Tensor::from_ndarray(arr2(&[[1.0f32, 2.0], [3.0, 4.0]])).t();
        assert_eq!(x.to_ndarray::<f32>()?, arr2(&[[1.0, 3.0], [2.0, 4.0]]).into_dyn());
        assert_eq!(x.to_ndarray::<f64>().unwrap_err().kind().word(), "dtype");
        assert_eq!(Tensor::from_ndarray(arr1(&[true, false])).into_ndarray::<bool>()?, arr1(&[true, false]).into_dyn());
        let nine = Array::<u8, _>::zeros(IxDyn(&[1; 9]));
        assert_eq!(Tensor::from_ndarray(nine).error().map(|e| e.kind().word()), Some("argument"));
        assert_eq!(a.len_of(Axis(0)), 2);
        Ok(())
    })
}
