//! The tensors of a goldens folder that a computation may read: never an answer.
use super::manifest::Case;
use adamant::{Device, Error, Tensor, formats::safetensors::SafeTensors};
use std::{collections::BTreeMap, path::Path};

/// The open files of a folder by name.
#[derive(Default)]
pub struct Files(BTreeMap<String, SafeTensors>);

impl Files {
    /// Opens the headers of the files that the cases name, and sees that what the cases need is there.
    pub fn open(dir: &Path, cases: &[Case]) -> Result<Files, String> {
        let mut files = BTreeMap::new();
        for case in cases.iter().filter(|case| !case.file.is_empty()) {
            if !files.contains_key(&case.file) {
                files.insert(case.file.clone(), SafeTensors::open(dir.join(&case.file)).map_err(|e| e.to_string())?);
            }
            let needed = [&case.inputs, &case.gout, &case.v, &case.step_grads].into_iter().flatten().flatten().chain(case.state.values());
            if let Some(missing) = needed.into_iter().find(|name| !files[&case.file].contains(name)) {
                return Err(format!("{}: the tensor {missing} of case {} is not in it", dir.join(&case.file).display(), case.id));
            }
        }
        Ok(Files(files))
    }
    /// A tensor of a case on a device.
    pub fn tensor(&self, case: &Case, name: &str, device: Device) -> Result<Tensor, Error> {
        match self.0.get(&case.file) {
            Some(file) => file.tensor(name, device),
            None => Err(super::call::argument(format!("the file {} was not opened", case.file))),
        }
    }
}
