//! What folders say of how their codes were made: `quantization_config` in `config.json`, or a file of its own.
use super::{refused, refused_at};
use adamant_core::{Origin, Result};
use adamant_formats::{shown, weights::json, whole};
use serde_json::{Map, Value};
use std::{io::Write, path::Path};

/// The fields of a configuration, with the file that it was found in.
pub(super) struct FolderConfig<'a> {
    op: &'static str,
    folder: &'a Path,
    fields: Map<String, Value>,
}
impl FolderConfig<'_> {
    /// From `config.json`, or the file that the method has beside it.
    #[track_caller]
    pub(super) fn read<'a>(op: &'static str, folder: &'a Path, own_name: &str) -> Result<FolderConfig<'a>> {
        let hub = folder.join("config.json");
        let of_hub = if hub.exists() { json(&hub)?.get("quantization_config").cloned() } else { None };
        let own = folder.join(own_name);
        let found = match of_hub {
            Some(found) => Some(found),
            None if own.exists() => Some(json(&own)?),
            None => None,
        };
        match found {
            Some(Value::Object(fields)) => Ok(FolderConfig { op, folder, fields }),
            Some(_) => Err(refused(op, folder, "its quantization configuration is no object".into()).hint("it has `bits`, `group_size` and more by name")),
            None => Err(refused(op, folder, format!("it has neither `quantization_config` in `config.json` nor `{own_name}`"))
                .hint("without it nobody knows the bits and the groups of the codes: take it from where the weights come from")),
        }
    }
    #[track_caller]
    pub(super) fn refuse(&self, text: String, hint: &str) -> adamant_core::Error {
        refused(self.op, self.folder, text).hint(hint.to_string())
    }
    /// The method must be this one.
    #[track_caller]
    pub(super) fn check_method(&self, method: &str) -> Result<()> {
        match self.fields.get("quant_method") {
            None => Ok(()),
            Some(Value::String(found)) if found == method => Ok(()),
            Some(found) => {
                let found = found.as_str().map_or_else(|| found.to_string(), str::to_string);
                Err(self.refuse(format!("it was quantized by `{}`, not by {method}", shown(found)), "`load_gptq` and `load_awq` read what they are named for"))
            }
        }
    }
    /// An integer under any of these names.
    #[track_caller]
    pub(super) fn integer(&self, names: &[&str]) -> Result<i64> {
        let first = names.first().copied().unwrap_or_default();
        match names.iter().find_map(|name| self.fields.get(*name)).map(|value| (value, value.as_i64())) {
            Some((_, Some(number))) => Ok(number),
            Some((value, None)) => Err(self.refuse(format!("`{first}` is {}, no integer", shown(value.to_string())), "the configuration is damaged")),
            None => Err(self.refuse(format!("its configuration lacks `{first}`"), "take it from where the weights come from")),
        }
    }
    /// A text.
    #[track_caller]
    pub(super) fn text(&self, name: &str) -> Result<Option<String>> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.refuse(format!("`{name}` is {}, no text", shown(other.to_string())), "the configuration is damaged")),
        }
    }
    /// Columns of a group: `None` for all.
    #[track_caller]
    pub(super) fn group(&self, names: &[&str]) -> Result<Option<usize>> {
        let group = self.integer(names)?;
        match usize::try_from(group) {
            Err(_) if group == -1 => Ok(None),
            Ok(group) if group > 0 => Ok(Some(group)),
            _ => Err(self.refuse(format!("groups have {group} columns"), "a group has one column or more, and -1 stands for all of a row")),
        }
    }
}
/// Writes JSON, whole or not at all.
#[track_caller]
pub(super) fn write(op: &'static str, path: &Path, value: &Value) -> Result<()> {
    let here = Origin::here();
    let told = |e: std::io::Error| refused_at(op, path, e.to_string(), here);
    whole::replace(path, told, |file| {
        serde_json::to_writer_pretty(&mut *file, value).map_err(|e| told(e.into())).and_then(|()| file.write_all(b"\n").map_err(told))
    })
}
