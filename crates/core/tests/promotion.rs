//! Promotion against PyTorch: `promotion.txt` is what its ops give for every pair of dtypes (`python/promotion.py` writes it).
use adamant_core::{
    Ambient, DType, Device, Scalar, Tensor,
    functional::{self, Reduction},
    promotion::{result_type, strict},
};
use std::collections::BTreeMap;

/// A letter for each of `DType::ALL`.
const LETTERS: &str = "bucsSiIlLhgfd45";
const COMMON: &str = "bucilhgfd";

fn of_letter(letter: char) -> Option<DType> {
    LETTERS.find(letter).map(|k| DType::ALL[k])
}
fn tables() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut tables: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut name = "";
    let text: &'static str = include_str!("promotion.txt");
    for line in text.lines() {
        match line.strip_prefix("# ") {
            Some(of) => name = of,
            None => tables.entry(name).or_default().push(line),
        }
    }
    tables
}
/// A side: a tensor or a number.
enum Given {
    Tensor(Tensor),
    Number(Scalar),
}
fn typed(a: &Given, b: &Given) -> Option<DType> {
    match (a, b) {
        (Given::Tensor(a), Given::Tensor(b)) => result_type(a, b),
        (Given::Tensor(a), Given::Number(b)) => result_type(a, *b),
        (Given::Number(a), Given::Tensor(b)) => result_type(*a, b),
        (Given::Number(a), Given::Number(b)) => result_type(*a, *b),
    }
    .ok()
}
#[test]
fn sides_meet_where_torch_result_type_says() {
    Device::reference().make_current();
    let tensors = |shape: &'static [usize]| DType::ALL.map(|d| Given::Tensor(Tensor::ones(shape).cast(d)));
    let numbers = [Scalar::Bool(true), Scalar::Int(1), Scalar::Float(1.5)].map(Given::Number);
    let sides: Vec<Given> = tensors(&[3]).into_iter().chain(tensors(&[])).chain(numbers).collect();
    let rows = &tables()["result_type"];
    assert_eq!(rows.len(), sides.len());
    for (row, left) in rows.iter().zip(&sides) {
        let ours: String = sides.iter().map(|right| typed(left, right).map_or("-".into(), letter)).collect();
        assert_eq!(&ours, row, "a row of torch.result_type");
    }
}
fn letter(dtype: DType) -> String {
    let k = DType::ALL.iter().position(|d| *d == dtype).unwrap();
    LETTERS[k..=k].to_string()
}

type Of2 = fn(&Tensor, &Tensor) -> Tensor;
fn square(t: &Tensor) -> Tensor {
    Tensor::stack(&[t, t, t], 0)
}
fn all() -> Tensor {
    Tensor::from_vec(vec![0i64, 1, 2], [3])
}
const OPS: &[(&str, Of2)] = &[
    ("add", |a, b| a + b),
    ("sub", |a, b| a - b),
    ("mul", |a, b| a * b),
    ("div", |a, b| a / b),
    ("remainder", |a, b| a.remainder(b)),
    ("fmod", |a, b| a.fmod(b)),
    ("pow", |a, b| a.pow(b)),
    ("maximum", |a, b| a.maximum(b)),
    ("minimum", |a, b| a.minimum(b)),
    ("fmax", |a, b| a.fmax(b)),
    ("fmin", |a, b| a.fmin(b)),
    ("atan2", |a, b| a.atan2(b)),
    ("hypot", |a, b| a.hypot(b)),
    ("logaddexp", |a, b| a.logaddexp(b)),
    ("logaddexp2", |a, b| a.logaddexp2(b)),
    ("copysign", |a, b| a.copysign(b)),
    ("xlogy", |a, b| a.xlogy(b)),
    ("nextafter", |a, b| a.nextafter(b)),
    ("ldexp", |a, b| a.ldexp(b)),
    ("eq", |a, b| a.eq(b)),
    ("ne", |a, b| a.ne(b)),
    ("lt", |a, b| a.lt(b)),
    ("le", |a, b| a.le(b)),
    ("gt", |a, b| a.gt(b)),
    ("ge", |a, b| a.ge(b)),
    ("logical_and", |a, b| a.logical_and(b)),
    ("logical_or", |a, b| a.logical_or(b)),
    ("logical_xor", |a, b| a.logical_xor(b)),
    ("bitwise_and", |a, b| a.bitwise_and(b)),
    ("bitwise_or", |a, b| a.bitwise_or(b)),
    ("bitwise_xor", |a, b| a.bitwise_xor(b)),
    ("where", |a, b| Tensor::from_vec(vec![true, false, true], [3]).where_(a, b)),
    ("clamp_min", |a, b| a.clamp_min(b)),
    ("clamp", |a, b| a.clamp(b, b)),
    ("cat", |a, b| Tensor::cat(&[a, b], 0)),
    ("stack", |a, b| Tensor::stack(&[a, b], 0)),
    ("outer", |a, b| a.outer(b)),
    ("kron", |a, b| a.kron(b)),
    ("addcmul", |a, b| a.addcmul(b, b, 1)),
    ("isclose", |a, b| a.isclose(b, 1e-5, 1e-8, false)),
    ("lerp", |a, b| a.lerp(b, 0.5)),
    ("cross", |a, b| a.cross(b, 0)),
    ("dot", |a, b| a.dot(b)),
    ("matmul", |a, b| square(a).matmul(&square(b))),
    ("linear", |a, b| functional::linear(&square(a), &square(b), None)),
    ("heaviside", |a, b| a.heaviside(b)),
    ("addmm", |a, b| square(a).addmm(&square(a), &square(b), 1, 1)),
    ("addmm_added", |a, b| a.addmm(&square(b), &square(b), 1, 1)),
    ("addmv", |a, b| a.addmv(&square(b), b, 1, 1)),
    ("baddbmm", |a, b| square(a).unsqueeze(0).baddbmm(&square(b).unsqueeze(0), &square(b).unsqueeze(0), 1, 1)),
    ("cdist", |a, b| square(a).cdist(&square(b), 2.0)),
    ("prelu", |a, b| square(a).prelu(b)),
    ("einsum_outer", |a, b| Tensor::einsum("i,j->ij", &[a, b])),
    ("einsum_dot", |a, b| Tensor::einsum("i,i->", &[a, b])),
    ("einsum_each", |a, b| Tensor::einsum("i,i->i", &[a, b])),
    ("tensordot", |a, b| a.tensordot_last(b, 1)),
    ("inner", |a, b| a.inner(b)),
    ("isin", |a, b| a.isin(b)),
    ("searchsorted", |a, b| a.searchsorted(b, false)),
    ("bilinear", |a, b| a.unsqueeze(0).bilinear(&b.unsqueeze(0), &square(a).unsqueeze(0), None)),
    ("layer_norm", |a, b| functional::layer_norm(&square(a), [3], Some(b), Some(b), 1e-5)),
    ("rms_norm", |a, b| functional::rms_norm(&square(a), [3], Some(b), Some(1e-5))),
    ("group_norm", |a, b| functional::group_norm(&square(a), 3, Some(b), Some(b), 1e-5)),
    ("conv1d", |a, b| functional::conv1d(&a.reshape([1, 1, 3]), &b.reshape([1, 1, 3]), None, &Default::default())),
    ("conv1d_bias", |a, b| functional::conv1d(&a.reshape([1, 1, 3]), &a.reshape([1, 1, 3]), Some(&b.narrow(0, 0, 1)), &Default::default())),
    ("linear_bias", |a, b| functional::linear(&square(a), &square(a), Some(b))),
    ("attention", |a, b| {
        let [q, k] = [a, b].map(|t| square(t).unsqueeze(0));
        functional::scaled_dot_product_attention(&q, &k, &k, &Default::default())
    }),
    ("scatter_add", |a, b| a.scatter_add(0, &all(), b)),
    ("index_add", |a, b| a.index_add(0, &all(), b, 1)),
    ("index_copy", |a, b| a.index_copy(0, &all(), b)),
    ("masked_scatter", |a, b| a.masked_scatter(&Tensor::from_vec(vec![true, false, true], [3]), b)),
    ("bce_weight", |a, b| functional::binary_cross_entropy(a, a, Some(b), Reduction::Mean)),
    ("bce_logits_pos_weight", |a, b| functional::binary_cross_entropy_with_logits(a, a, None, Some(b), Reduction::Mean)),
    ("cosine_embedding_loss", |a, b| functional::cosine_embedding_loss(&square(a), &square(b), &Tensor::ones([3]), 0.0, Reduction::Mean)),
    ("margin_ranking_loss", |a, b| functional::margin_ranking_loss(a, b, &Tensor::ones([3]), 0.0, Reduction::Mean)),
    ("triplet_margin_loss", |a, b| functional::triplet_margin_loss(&square(a), &square(b), &square(b), &Default::default())),
    ("hinge_embedding_loss", |a, b| functional::hinge_embedding_loss(a, b, 1.0, Reduction::Mean)),
    ("gaussian_nll_loss", |a, b| functional::gaussian_nll_loss(a, b, a, false, 1e-6, Reduction::Mean)),
    ("multilabel_soft_margin_loss", |a, b| functional::multilabel_soft_margin_loss(&square(a), &square(b), None, Reduction::Mean)),
    ("gcd", |a, b| a.gcd(b)),
    ("floor_divide", |a, b| a.floor_divide(b)),
    ("mse_loss", |a, b| functional::mse_loss(a, b, Reduction::Mean)),
    ("l1_loss", |a, b| functional::l1_loss(a, b, Reduction::Mean)),
    ("smooth_l1_loss", |a, b| functional::smooth_l1_loss(a, b, 1.0, Reduction::Mean)),
    ("huber_loss", |a, b| functional::huber_loss(a, b, 1.0, Reduction::Mean)),
    ("kl_div", |a, b| functional::kl_div(a, b, false, Reduction::Mean)),
    ("soft_margin_loss", |a, b| functional::soft_margin_loss(a, b, Reduction::Mean)),
    ("poisson_nll_loss", |a, b| functional::poisson_nll_loss(a, b, &Default::default())),
    ("binary_cross_entropy", |a, b| functional::binary_cross_entropy(a, b, None, Reduction::Mean)),
    ("binary_cross_entropy_with_logits", |a, b| functional::binary_cross_entropy_with_logits(a, b, None, None, Reduction::Mean)),
    ("cosine_similarity", |a, b| a.cosine_similarity(b, 0, 1e-8)),
    ("pairwise_distance", |a, b| square(a).pairwise_distance(&square(b), 2.0, 1e-6)),
    ("index_put", |a, b| a.index_put(&[Some(&all())], b, false)),
    ("scatter", |a, b| a.scatter(0, &all(), b)),
];
/// Where we give another answer, and why: ops, and whether it holds for these sides and PyTorch's answer (`-`: refused).
type Differs = fn(left: DType, right: DType, torch: char) -> bool;
const DIFFERENCES: &[(&str, &str, Differs)] = &[
    ("int16 is stored here and not computed with, so that u8 and i8 meet nowhere", "", |a, b, _| {
        matches!((a, b), (DType::U8, DType::I8) | (DType::I8, DType::U8))
    }),
    ("PyTorch has no such kernel; ours computes integers in f32", "hypot logaddexp logaddexp2", |a, b, torch| torch == '-' && !a.is_float() && !b.is_float()),
    ("the dtypes promote here; PyTorch has not yet implemented it", "heaviside", |a, b, torch| torch == '-' && a != b),
    ("PyTorch has no such kernel for bools", "ldexp clamp addcmul einsum_dot", |_, b, torch| torch == '-' && b == DType::Bool),
    (
        "bools of a loss are numbers here",
        "l1_loss poisson_nll_loss margin_ranking_loss triplet_margin_loss gaussian_nll_loss multilabel_soft_margin_loss",
        |a, b, torch| torch == '-' && (a == DType::Bool || b == DType::Bool),
    ),
    ("weighted losses want floats of one dtype", "bce_weight bce_logits_pos_weight", |_, _, torch| torch != '-'),
    ("losses are of floats", "cosine_embedding_loss triplet_margin_loss hinge_embedding_loss", |a, b, torch| torch != '-' && !a.is_float() && !b.is_float()),
    ("an integer beside 16 bits leaves its dtype", "cosine_embedding_loss", |a, b, torch| torch == 'f' && a.is_float() != b.is_float()),
    ("a bool is among others here; PyTorch has no such kernel", "isin searchsorted", |a, b, torch| torch == '-' && (a == DType::Bool || b == DType::Bool)),
    ("convolutions are of floats", "conv1d conv1d_bias", |a, b, torch| torch != '-' && a == b && !a.is_float()),
    ("distances are of 16-bit floats, too", "cdist", |a, b, torch| torch == '-' && a == b),
    ("of integers ours rounds", "lerp", |a, b, torch| torch == '-' && a == b),
    ("PyTorch's result has the target's dtype, even where that is narrower", "binary_cross_entropy_with_logits", |a, b, torch| torch != '-' && a != b),
];
fn is_known(name: &str, left: DType, right: DType, torch: char) -> bool {
    DIFFERENCES.iter().any(|(_, ops, differs)| (ops.is_empty() || ops.split(' ').any(|op| op == name)) && differs(left, right, torch))
}
#[test]
fn ops_give_the_dtypes_that_pytorch_gives() {
    Device::reference().make_current();
    let tables = tables();
    let (mut same, mut known, mut other) = (0, 0, Vec::new());
    for (name, op) in OPS {
        for (row, left) in tables[name].iter().zip(COMMON.chars()) {
            for (wanted, right) in row.chars().zip(COMMON.chars()) {
                let dtypes = [left, right].map(|c| of_letter(c).unwrap());
                let [a, b] = dtypes.map(|d| Tensor::ones([3]).cast(d));
                let result = op(&a, &b);
                let ours = result.materialize().and_then(|()| result.dtype()).map_or("-".into(), letter);
                if ours.starts_with(wanted) {
                    same += 1;
                } else if is_known(name, dtypes[0], dtypes[1], wanted) {
                    known += 1;
                } else {
                    other.push(format!("{name} {left}{right}: {ours} not {wanted}"));
                }
            }
        }
    }
    println!("{same} as PyTorch, {known} differ for a reason, {} without one", other.len());
    assert!(other.is_empty(), "{other:#?}");
    assert_eq!(tables.len(), OPS.len() + 2, "result_type and dist have no op here");
}
/// The value of a promoted op is that of the op of cast sides, and gradients come back in their own dtypes.
#[test]
fn values_and_gradients_are_those_of_cast_sides() {
    Device::reference().make_current();
    let x = Tensor::from_vec(vec![0.5f32, -2.0, 3.0], [3]).tracked();
    let y = Tensor::from_vec(vec![2.0f64, 0.25, -1.0], [3]).tracked();
    let z = (&x * &y + Tensor::from_vec(vec![1i64, 2, 3], [3])).sum(..);
    let grads = z.backward().unwrap();
    assert_eq!(z.item::<f64>().unwrap(), 0.5 * 2.0 - 2.0 * 0.25 - 3.0 + 6.0);
    assert_eq!(grads.get(&x).unwrap().to_vec::<f32>().unwrap(), [2.0, 0.25, -1.0]);
    assert_eq!(grads.get(&y).unwrap().to_vec::<f64>().unwrap(), [0.5, -2.0, 3.0]);
}
#[test]
fn numbers_widen_and_keep_their_value() {
    Device::reference().make_current();
    let ids = Tensor::from_vec(vec![1i64, 2], [2]);
    assert_eq!((&ids * 0.5).to_vec::<f32>().unwrap(), [0.5, 1.0]);
    assert_eq!((0.5 * &ids).to_vec::<f32>().unwrap(), [0.5, 1.0]);
    let mask = Tensor::from_vec(vec![true, false], [2]);
    assert_eq!((&mask + 1).to_vec::<i64>().unwrap(), [2, 1]);
    assert_eq!(mask.where_(1, 2.5).to_vec::<f32>().unwrap(), [1.0, 2.5]);
    assert_eq!(ids.clamp(1.5, 1.75).to_vec::<f32>().unwrap(), [1.5, 1.75]);
    let bytes = Tensor::from_vec(vec![1u8], [1]);
    for refused in [&bytes + 300, 1.0 - &mask, ids.masked_fill(&mask, 0.5)] {
        assert!(refused.materialize().is_err());
    }
}
/// A strict scope refuses, also on a thread that its surroundings are taken to and in a function compiled outside of it.
#[test]
fn strict_refuses_and_travels() {
    Device::reference().make_current();
    let (x, ids) = (Tensor::ones([2]), Tensor::from_vec(vec![1i64, 2], [2]));
    let mixed = |a: &Tensor, b: &Tensor| (a * b).materialize().is_err() && (b + 0.5).materialize().is_err() && Tensor::cat(&[a, b], 0).materialize().is_err();
    assert!(!mixed(&x, &ids) && strict(|| mixed(&x, &ids)) && !mixed(&x, &ids));
    let around = strict(Ambient::current);
    let there = std::thread::scope(|s| {
        let held = s.spawn(|| {
            let _around = around.enter();
            mixed(&x, &ids)
        });
        held.join().unwrap()
    });
    assert!(there);
    let compiled = adamant_core::compile(|x: &[Tensor]| Ok(vec![&x[0] * &x[1]]));
    let runs = || compiled.call(&[&x, &ids]).and_then(|y| y[0].materialize()).is_ok();
    assert!(runs() && !strict(runs) && runs());
}
