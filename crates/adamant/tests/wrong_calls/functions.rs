//! The registered wrong calls of every function, on the CPU.
use crate::Case;
use adamant::{DType, Device, Tensor};
use adamant_conformance::{
    data::upload,
    random::Random,
    registry::{Function, entries},
};

pub fn cases(device: Device) -> Vec<Case> {
    let mut cases = Vec::new();
    for entry in entries() {
        let dtype = if entry.dtypes.contains(&DType::F32) { DType::F32 } else { *entry.dtypes.first().unwrap_or(&DType::F32) };
        let random = Random::new(5);
        let x: Vec<Tensor> = entry.inputs.iter().enumerate().map(|(k, i)| upload(&i.draw(dtype, &mut random.part(k as u64)), device)).collect();
        let mut told = |text: &str, outputs: Vec<Tensor>| {
            let error = outputs.iter().find_map(|y| y.materialize().err());
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            cases.push(Case { text, path: "", line: None, error, of: entry.name.clone() });
        };
        for wrong in &entry.errors {
            told(wrong.text, (wrong.call)(&x));
        }
        if let (Function::Binary(f), Some([2, 3])) = (entry.function, entry.inputs.first().map(|i| &*i.shape)) {
            let text = entry.name.trim_start_matches("Tensor::");
            told(&format!("left.{text}(&right)"), vec![x[0].binary(f, Tensor::zeros([7]).cast(dtype))]);
        }
    }
    cases
}
