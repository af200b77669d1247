//! What PyTorch refuses is a typed error that names the op and the user's line; it is never a panic or a wrong tensor.
mod naive;
use adamant_core::{tensor::*, *};

type Case = (&'static str, &'static str, fn() -> Tensor);
fn x() -> Tensor {
    Tensor::arange(0, 6, 1, DType::F32).reshape([2, 3])
}
fn ids(v: &[i64]) -> Tensor {
    Tensor::from_slice(v, v.len())
}

const CASES: &[Case] = &[
    // (kind, in the message, call)
    ("shape", "unflatten", || x().unflatten(1, [2, 2])),
    ("shape", "a shape of 6 elements", || x().reshape([4, -1])),
    ("axis", "flatten: axis 2", || x().flatten(0, 2)),
    ("argument", "flatten", || x().flatten(1, 0)),
    ("axis", "squeeze: axis 2", || x().squeeze(2)),
    ("axis", "unsqueeze: axis 4", || x().unsqueeze(4)),
    ("axis", "transpose: axis 2", || x().transpose(0, 2)),
    ("shape", "t: shape [2, 3, 1]", || x().unsqueeze(2).t()),
    ("argument", "movedim", || x().movedim([0, 0], [0, 1])),
    ("argument", "movedim", || x().movedim([0, 1], 0)),
    ("index", "select: index 3", || x().select(1, 3)),
    ("index", "i: index 3 is out of range for axis 1, of size 3", || x().i((.., 3))),
    ("index", "item 1 of the index, counted from 0, is for axis 1 of shape [2, 3], whose elements are 0 to 2", || x().i((.., -4))),
    ("index", "i: index 2 is out of range", || x().i([0, 2])),
    ("index", "i (in its gather): index 2 at position", || x().i(&ids(&[0, 2]))),
    ("shape", "i: shape [2, 3]: at least 3 axes", || x().i((0, .., ..))),
    ("argument", "i: items 0 and 2 of the index are both an ellipsis", || x().i((Ellipsis, 0, Ellipsis))),
    ("shape", "i: a mask must have the sizes of the axes it indexes: left [2, 3] axis 1 = 3, right [2] axis 0 = 2", || x().i((.., &tensor![true, false]))),
    ("dtype", "i: an index is a tensor of integers or bool, not f32", || x().i(&x())),
    ("argument", "i: a step of 0", || x().i(stepped(.., 0))),
    ("shape", "i: shapes do not broadcast", || x().i((&ids(&[0, 1]), &ids(&[0, 1, 2])))),
    ("shape", "i: shape [0, 3]: an axis 0 with elements", || x().narrow(0, 0, 0).i(&ids(&[0]))),
    ("argument", "i: a tensor has at most 8 axes", || x().i((NewAxis, NewAxis, NewAxis, NewAxis, NewAxis, NewAxis, NewAxis))),
    ("shape", "with_i: values must broadcast to the place they are written to: left [2], right [2, 3]", || x().with_i((.., 0), x())),
    ("shape", "with_i: values must broadcast", || x().with_i((.., [0, 1]), x())),
    ("dtype", "with_i: dtypes differ", || x().with_i(0, ids(&[1, 2, 3]))),
    ("dtype", "with_i: the float 0.5", || ids(&[1, 2]).with_i(0, 0.5)),
    ("index", "with_i_added: index 2", || x().with_i_added(2, 1)),
    ("index", "select: index -4", || x().select(1, -4)),
    ("index", "narrow (in its slice): index 3", || x().narrow(1, 2, 2)),
    ("index", "update_slice", || x().update_slice(1, 2, &Tensor::zeros([2, 2]))),
    ("argument", "pad_constant: 3 widths", || x().pad_constant([1, 2, 3], 0)),
    ("argument", "pad_constant: padding", || x().pad_constant([-2, -2], 0)),
    ("shape", "cat (in its concat): sizes", || Tensor::cat(&[x(), Tensor::zeros([3, 2])], 0)),
    ("argument", "cat: nothing", || Tensor::cat::<Tensor>(&[], 0)),
    ("dtype", "cat: dtypes differ", || Tensor::cat(&[ids(&[1]), ids(&[1]).cast(DType::U16)], 0)),
    ("shape", "stack", || Tensor::stack(&[x(), Tensor::zeros([3, 2])], 0)),
    ("argument", "repeat: 1 repeats", || x().repeat([2])),
    ("argument", "tile (in its repeat): an axis cannot be repeated -1 times", || x().tile([-1, 1])),
    ("argument", "roll: 2 shifts for 1 axes", || x().roll([1, 2], [0])),
    ("argument", "rot90", || x().rot90(1, [0, 0])),
    ("shape", "unfold", || x().unfold(1, 4, 1)),
    ("argument", "unfold", || x().unfold(1, 2, 0)),
    ("shape", "gather", || x().gather(0, &ids(&[0]))),
    ("dtype", "gather: an index is an integer", || x().gather(0, &x())),
    ("index", "gather: index 3 at position 1 is out of range for axis 1, of size 3", || x().narrow(0, 0, 1).gather(1, &ids(&[0, 3]).reshape([1, 2]))),
    ("index", "scatter_add: index -1 at position 0", || x().scatter_add(0, &ids(&[-1]).reshape([1, 1]), &Tensor::ones([1, 1]))),
    ("index", "index_select (in its gather): index 2 at position 3", || x().index_select(0, &ids(&[0, 2]))),
    ("index", "index (in its gather): index 5", || x().index(&[Some(&ids(&[0])), Some(&ids(&[5]))])),
    ("index", "index (in its gather): index -3", || x().index(&[Some(&ids(&[-3]))])),
    ("shape", "index: a mask", || x().index(&[Some(&tensor![true, false, true])])),
    ("argument", "index: 3 indices", || x().index(&[Some(&ids(&[0])), Some(&ids(&[0])), Some(&ids(&[0]))])),
    ("shape", "index: shapes do not broadcast", || x().index(&[Some(&ids(&[0, 1])), Some(&ids(&[0, 1, 2]))])),
    ("shape", "index_copy", || x().index_copy(0, &ids(&[0]), &Tensor::zeros([1, 2]))),
    ("index", "take (in its gather): index 6", || x().take(&ids(&[6]))),
    ("dtype", "masked_select", || x().masked_select(&x())),
    ("shape", "select", || x().masked_fill(&tensor![true, false], 0.0)),
    ("dtype", "the float 0.5", || ids(&[1]).masked_fill(&tensor![true], 0.5)),
    ("index", "one_hot (in its gather): index 3 at position 1", || ids(&[0, 3]).one_hot(3)),
    ("index", "one_hot (in its gather): index -1", || ids(&[-1]).one_hot(3)),
    ("argument", "topk", || x().topk(4, 1, true).0),
    ("argument", "kthvalue", || x().kthvalue(0, 1).1),
    ("shape", "searchsorted", || x().searchsorted(&Tensor::zeros([3, 2]), false)),
    ("argument", "quantile", || x().quantile(1.5, 1, Interpolation::Linear)),
    ("dtype", "quantile", || ids(&[1]).quantile(0.5, 0, Interpolation::Linear)),
    ("argument", "bincount", || ids(&[-1]).bincount(None, 0)),
    ("shape", "argmax: shape [0]", || Tensor::zeros([0]).argmax(..)),
    ("shape", "max_dim (in its argmax): shape [0, 2]", || Tensor::zeros([0, 2]).max_dim(0).1),
    ("argument", "sum: axis 0 is named twice", || x().sum([0, 0])),
    ("axis", "var: axis 2", || x().var(2, 1.0)),
    ("axis", "cumsum: axis 5", || x().cumsum(5)),
    ("shape", "matmul: a product needs", || x().matmul(Tensor::scalar(1.0f32))),
    ("shape", "left [2, 3] axis 1 = 3, right [2, 3] axis 0 = 2", || x().matmul(x())),
    ("shape", "matmul: batch sizes", || Tensor::zeros([2, 2, 3]).matmul(Tensor::zeros([3, 3, 2]))),
    ("shape", "mm: two matrices", || x().mm(&Tensor::zeros([3]))),
    ("shape", "dot: both vectors", || Tensor::zeros([2]).dot(&Tensor::zeros([3]))),
    ("argument", "names 2 operands, but 1", || Tensor::einsum("ij,jk->ik", &[x()])),
    ("argument", "output label l", || Tensor::einsum("ij->il", &[x()])),
    ("argument", "occurs twice", || Tensor::einsum("ij->ii", &[x()])),
    ("argument", "`1` in", || Tensor::einsum("i1->i", &[x()])),
    ("shape", "operand 0 of `ijk->i` to have 3 axes", || Tensor::einsum("ijk->i", &[x()])),
    ("shape", "axes of one label", || Tensor::einsum("ij,jk->ik", &[x(), x()])),
    ("shape", "axes of one label", || Tensor::einsum("ii->i", &[x()])),
    ("shape", "tensordot_last: matched axes", || x().tensordot_last(&x(), 1)),
    ("shape", "cross", || x().cross(&Tensor::zeros([2, 2]), -1)),
    ("domain", "inv: the matrix is singular", || Tensor::zeros([2, 2]).inv()),
    ("shape", "square", || x().inv()),
    ("dtype", "det", || Tensor::zeros([2, 2]).cast(DType::F16).det()),
    ("domain", "leading minor of order 2", || tensor![[1.0, 2.0], [2.0, 1.0]].cholesky()),
    ("domain", "solve", || Tensor::ones([2, 2]).solve(&Tensor::ones([2]))),
    ("shape", "right side", || Tensor::eye(2).solve(&Tensor::ones([3, 1]))),
    ("domain", "do not converge", || Tensor::full([2, 2], f64::NAN, DType::F32).svdvals()),
    ("argument", "matrix norm of order 3", || x().matrix_norm(MatrixNorm::Ord(3.0))),
    ("dtype", "vector_norm", || ids(&[1]).vector_norm(2.0, ..)),
    ("argument", "fft", || Tensor::zeros([4, 2]).fft(Some(0), 0, FftNorm::Backward)),
    ("shape", "complex numbers", || x().fft(None, 0, FftNorm::Backward)),
    ("argument", "reflected", || Tensor::zeros([4]).stft(16, 4, &Tensor::ones([16]), true, FftNorm::Backward)),
];

#[test]
fn each_refusal_is_typed_and_names_its_op() {
    Device::reference().scoped(|| {
        let mut wrong = Vec::new();
        for (kind, text, call) in CASES {
            match call().materialize() {
                Ok(()) => wrong.push(format!("{text}: no error")),
                Err(e) if e.kind().word() == *kind && e.to_string().contains(text) && e.location().file().ends_with("api_errors.rs") => {}
                Err(e) => wrong.push(format!("{text}: {kind}, but {}: {e}", e.kind().word())),
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}
#[test]
fn lists_of_parts_are_results() {
    Device::reference().scoped(|| {
        let cases: [(&str, Result<Vec<Tensor>>); 6] = [
            ("shape", x().split_with_sizes(&[1, 1], 1)),
            ("argument", x().split(0, 1)),
            ("argument", x().chunk(0, 1)),
            ("axis", x().unbind(2)),
            ("shape", Tensor::meshgrid(&[x()], Indexing::Ij)),
            ("shape", x().matmul(x()).chunk(2, 0)),
        ];
        for (kind, parts) in cases {
            assert_eq!(parts.unwrap_err().kind().word(), kind);
        }
    });
}
#[test]
fn a_failed_input_hands_its_own_error_on() {
    Device::reference().scoped(|| {
        let line = line!() + 1;
        let bad = x().matmul(x());
        let after = [
            bad.flatten(0, -1),
            bad.var(.., 1.0),
            Tensor::cat(&[x(), bad.clone()], 0),
            bad.sort(0, false).1,
            bad.inv(),
            Tensor::einsum("ij->", std::slice::from_ref(&bad)),
            x().index(&[Some(&bad)]),
        ];
        for t in after {
            let e = t.ok().unwrap_err();
            assert_eq!((e.op(), e.location().line()), ("matmul", line));
        }
    });
}
#[test]
fn counts_in_the_data_cannot_be_read_while_capturing() {
    naive::device(2048, usize::MAX).scoped(|| {
        let f = compile(|inputs: &[Tensor]| Ok(vec![inputs[0].nonzero().ok()?]));
        let e = f.call(&[&x()]).err().map(|e| e.kind().word());
        assert_eq!(e, Some("capture"));
    });
}
