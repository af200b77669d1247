//! Tensors as text.
use adamant_core::*;

fn check(t: Tensor, want: &str) {
    assert_eq!(format!("{t}"), want);
    assert_eq!(format!("{t:?}"), want);
}

#[test]
fn tensors_print_as_in_pytorch() {
    Device::reference().scoped(|| {
        check(tensor![1.0, 2.5], "tensor([1.0000, 2.5000], dtype=f32, device=reference)");
        check(tensor![1.0, -2.0], "tensor([ 1., -2.], dtype=f32, device=reference)");
        check(tensor![1, -20], "tensor([  1, -20], dtype=i64, device=reference)");
        check(tensor![true, false], "tensor([ true, false], dtype=bool, device=reference)");
        check(Tensor::scalar(3.25f64), "tensor(3.2500, dtype=f64, device=reference)");
        check(tensor![[1.0, 2.0], [3.0, 4.0]], "tensor([[1., 2.],\n        [3., 4.]], dtype=f32, device=reference)");
        check(tensor![[[1], [2]], [[3], [4]]], "tensor([[[1],\n         [2]],\n\n        [[3],\n         [4]]], dtype=i64, device=reference)");
        check(tensor![1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00], dtype=f32, device=reference)");
        check(tensor![1.5e10], "tensor([1.5000e+10], dtype=f32, device=reference)");
        check(Tensor::from_vec(vec![f32::NAN, f32::INFINITY, -1.5], 3), "tensor([    nan,     inf, -1.5000], dtype=f32, device=reference)");
        check(Tensor::zeros([0]), "tensor([], dtype=f32, device=reference)");
        check(Tensor::zeros([2, 0]), "tensor([], shape=[2, 0], dtype=f32, device=reference)");
        check(tensor![2.0].tracked(), "tensor([2.], dtype=f32, device=reference, tracked)");
    });
}
#[test]
fn pending_ops_run_when_printed() {
    Device::reference().scoped(|| check(tensor![1.0, 2.0] + 1.0, "tensor([2., 3.], dtype=f32, device=reference)"));
}
#[test]
fn the_middle_of_a_large_tensor_is_left_out() {
    Device::reference().scoped(|| {
        check(Tensor::arange(0, 2000, 1, DType::I64), "tensor([   0,    1,    2, ..., 1997, 1998, 1999], dtype=i64, device=reference)");
        let text = Tensor::zeros([40, 40]).to_string();
        assert_eq!(text.lines().count(), 7, "{text}");
        assert!(text.contains("[0., 0., 0., ..., 0., 0., 0.]") && text.contains("\n        ...,\n"), "{text}");
    });
}
#[test]
fn long_rows_are_broken() {
    Device::reference().scoped(|| {
        let text = Tensor::arange(0, 40, 1, DType::I64).to_string();
        assert!(text.lines().count() > 1 && text.lines().all(|l| l.len() <= 110), "{text}");
        assert!(text.lines().nth(1).unwrap().starts_with("        "), "{text}");
    });
}
#[test]
fn a_failed_tensor_prints_its_error() {
    Device::reference().scoped(|| {
        let text = format!("{:?}", tensor![1.0, 2.0].matmul(tensor![1.0]));
        assert!(text.starts_with("tensor(failed: matmul: ") && text.contains("api_display.rs"), "{text}");
    });
}
