//! Indices read, write and refuse as PyTorch (steps below 0 and two ellipses: NumPy) did when `python/indexing.py` asked it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
use adamant_core::*;
use serde_json::Value;

fn sizes(v: &Value) -> Vec<usize> {
    v.as_array().unwrap().iter().map(|d| d.as_u64().unwrap() as usize).collect()
}
fn numbers(v: &Value) -> Vec<i64> {
    v.as_array().unwrap().iter().map(|d| d.as_i64().unwrap()).collect()
}
fn counting(first: i64, step: i64, shape: &[usize]) -> Tensor {
    Tensor::from_vec((0..shape.iter().product::<usize>() as i64).map(|k| (first + step * k) as f64).collect::<Vec<_>>(), shape.to_vec())
}
/// `start:end:step`.
fn slice(text: &str) -> IndexItem {
    let part: Vec<Option<i64>> = text.split(':').map(|n| n.parse().ok()).collect();
    let range: IndexSlice = match (part[0], part[1]) {
        (Some(a), Some(b)) => (a..b).into(),
        (Some(a), None) => (a..).into(),
        (None, Some(b)) => (..b).into(),
        (None, None) => (..).into(),
    };
    IndexItem::Slice(stepped(range, part.get(2).copied().flatten().unwrap_or(1)))
}
fn item(v: &Value) -> IndexItem {
    match v {
        Value::Number(n) => IndexItem::At(n.as_i64().unwrap() as isize),
        Value::String(text) if text == "..." => IndexItem::Ellipsis,
        Value::String(text) if text == "None" => IndexItem::NewAxis,
        Value::String(text) => slice(text),
        t => {
            let dtype = match t["dtype"].as_str().unwrap() {
                "i64" => DType::I64,
                "i32" => DType::I32,
                "f32" => DType::F32,
                _ => DType::Bool,
            };
            IndexItem::Tensor(Tensor::from_vec(numbers(&t["at"]), sizes(&t["shape"])).cast(dtype))
        }
    }
}
fn same(what: &str, got: &Tensor, want: &Value) {
    let got: Vec<i64> = got.to_vec::<f64>().unwrap_or_else(|e| panic!("{what}: {e}")).into_iter().map(|x| x as i64).collect();
    assert_eq!(got, numbers(want), "{what}");
}
fn replay(case: &Value) {
    let (shape, items) = (sizes(&case["x"]), case["i"].as_array().unwrap().iter().map(item).collect::<Vec<_>>());
    let what = format!("x of {shape:?} at {}", case["i"]);
    let x = counting(0, 1, &shape).tracked();
    let y = x.i(&items[..]);
    if case.get("error").is_some() {
        // A number in data is looked at where it is used: what reads nothing finds nothing wrong with it.
        let reads_nothing = y.shape().is_ok_and(|shape| shape.elements() == 0);
        if reads_nothing && items.iter().any(|item| matches!(item, IndexItem::Tensor(_))) {
            return;
        }
        let error = y.materialize().err().unwrap_or_else(|| panic!("{what}: {} is refused there, and {y} here", case["error"]));
        assert!(matches!(error.kind().word(), "index" | "shape" | "argument" | "dtype"), "{what}: {error}");
        assert!(x.with_i(&items[..], 0.0).materialize().is_err(), "{what}: it reads nothing, and is written");
        return;
    }
    let got = y.shape().unwrap_or_else(|e| panic!("{what}: {e}")).to_vec();
    assert_eq!(got, sizes(&case["shape"]), "{what}");
    same(&what, &y, &case["values"]);
    let grads = grad::backward_many(&[(&y, &counting(1, 1, &got))], false).unwrap_or_else(|e| panic!("{what}: {e}"));
    same(&format!("gradient of {what}"), grads.get(&x).unwrap_or(&x.zeros_like()), &case["grad"]);
    // A value says where it was read, so what a number overwrites is known.
    let mut filled: Vec<i64> = (0..shape.iter().product::<usize>() as i64).collect();
    numbers(&case["values"]).iter().for_each(|&at| filled[at as usize] = -7);
    same(&format!("filling {what}"), &x.with_i(&items[..], -7), &filled.into());
    if let Some(set) = case.get("set") {
        same(&format!("writing {what}"), &x.with_i(&items[..], counting(-1, -1, &got)), set);
    }
    // The gradient of a read adds what falls on one place: so does an added write to zeros.
    same(&format!("adding to {what}"), &x.detach().zeros_like().with_i_added(&items[..], counting(1, 1, &got)), &case["grad"]);
}

#[test]
fn each_case_is_pytorchs() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("indexing.json")).unwrap();
    assert!(cases.len() >= 400 && cases.iter().any(|c| c["by"] == "numpy"));
    Device::reference().scoped(|| cases.iter().for_each(replay));
}
