//! Every public function has a class, and its result the dtype of it, under both tables; `--nocapture` prints them.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use adamant_amp::{Autocast, PrecisionClass, PrecisionTable};
use adamant_backend_cpu as _;
use adamant_conformance::{
    data::upload,
    random::Random,
    registry::{Entry, entries},
};
use adamant_core::{DType, Device, Tensor};
use std::collections::{BTreeMap, BTreeSet};

fn short(entry: &Entry) -> String {
    entry.name.rsplit("::").next().unwrap().to_string()
}
fn drawn(entry: &Entry, dtype: DType) -> Vec<Tensor> {
    let random = Random::new(7);
    let device = Device::current().unwrap();
    entry.inputs.iter().enumerate().map(|(k, i)| upload(&i.draw(dtype, &mut random.part(k as u64)), device)).collect()
}
/// The dtypes of a call's results, or `None` of each that failed.
fn dtypes(entry: &Entry, dtype: DType) -> Vec<Option<DType>> {
    entry.function.call(&drawn(entry, dtype)).iter().map(|t| t.dtype().ok()).collect()
}
fn is_moved(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

#[test]
fn every_public_function_has_one_class() {
    let public: BTreeSet<String> = entries().iter().map(short).collect();
    for table in [PrecisionTable::Adamant, PrecisionTable::Torch] {
        let mut by_name = BTreeMap::new();
        for (name, class) in table.rows() {
            assert!(by_name.insert(name, class).is_none(), "{name} has two classes");
        }
        let without: Vec<&String> = public.iter().filter(|name| table.class(name).is_none()).collect();
        assert!(without.is_empty(), "without a class: {without:?}");
        // Names of ops that have no public function of the same name.
        let ops = ["attention", "conv", "conv_transpose", "distances", "fourier", "cofactors", "ldl", "lu_order", "reflections"];
        let unknown: Vec<&str> = by_name.keys().filter(|name| !public.contains(**name) && !ops.contains(name)).copied().collect();
        assert!(unknown.is_empty(), "no such functions: {unknown:?}");
    }
}
#[test]
fn results_have_the_dtype_of_their_class() {
    let mut wrong = Vec::new();
    for table in [PrecisionTable::Adamant, PrecisionTable::Torch] {
        for low in [DType::F16, DType::BF16] {
            let region = Autocast::new(low).unwrap().table(table);
            for entry in entries() {
                let class = table.class(&short(&entry)).unwrap();
                for dtype in [DType::F32, low, DType::F64, DType::I32].into_iter().filter(|d| entry.dtypes.contains(d)) {
                    let outside = dtypes(&entry, dtype);
                    let inside = region.run(|| dtypes(&entry, dtype));
                    let wanted = |before: Option<DType>| match (class, before) {
                        _ if !is_moved(dtype) || class == PrecisionClass::Parts => before,
                        (PrecisionClass::Low, Some(d)) if is_moved(d) => Some(low),
                        (PrecisionClass::F32, Some(d)) if is_moved(d) => Some(DType::F32),
                        (PrecisionClass::Refused, _) => None,
                        _ => before,
                    };
                    let wanted: Vec<_> = outside.iter().map(|d| wanted(*d)).collect();
                    if class != PrecisionClass::Parts && inside != wanted {
                        wrong.push(format!("{table:?} {} of {dtype} in {low}, {class}: {inside:?}, not {wanted:?}", entry.name));
                    }
                }
            }
        }
        table.rows().for_each(|(name, class)| println!("{table:?} {name} {class}"));
    }
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}
fn is_f32(t: &Tensor) -> bool {
    t.dtype().is_ok_and(|d| d == DType::F32)
}
/// Activations of 16 bits beside weights of f32, as every network has them.
#[test]
fn activations_of_16_bits_meet_weights_of_f32() {
    let mut wrong = BTreeSet::new();
    for table in [PrecisionTable::Adamant, PrecisionTable::Torch] {
        for low in [DType::F16, DType::BF16] {
            let region = Autocast::new(low).unwrap().table(table);
            for entry in entries().iter().filter(|e| e.dtypes.contains(&DType::F32) && e.dtypes.contains(&low)) {
                let class = table.class(&short(entry)).unwrap();
                let mut inputs = drawn(entry, DType::F32);
                if inputs.iter().filter(|t| is_f32(t)).count() < 2 || !is_f32(&inputs[0]) || class == PrecisionClass::Refused {
                    continue;
                }
                let plain = entry.function.call(&inputs);
                if plain.iter().any(|t| t.error().is_some()) {
                    continue;
                }
                inputs[0] = inputs[0].cast(low);
                for (t, plain) in region.run(|| entry.function.call(&inputs)).iter().zip(&plain) {
                    let before = plain.dtype().unwrap();
                    let fits = match (t.dtype(), class) {
                        (Err(_), _) => false,
                        (Ok(d), PrecisionClass::Low) if is_moved(before) => d == low,
                        (Ok(d), PrecisionClass::F32) if is_moved(before) => d == DType::F32,
                        (Ok(d), _) => is_moved(before) == is_moved(d),
                    };
                    if !fits {
                        wrong.insert(format!("{table:?} {} in {low}, {class}: {:?}", entry.name, t.dtype().map_err(|e| e.to_string())));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.into_iter().collect::<Vec<_>>().join("\n"));
}
