//! Holds a value against a schema of JSON Schema's draft 2020-12, as far as our schemas use it; a word that is not known ends the test, so that nothing
//! is passed over in silence. (The crates for all of the draft bring other features of crates that everything here is built on.)
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Words that say something to people alone.
const SILENT: [&str; 5] = ["$schema", "$id", "$defs", "title", "description"];

/// A schema, with what its references mean.
pub struct FileSchema(Value);
impl FileSchema {
    pub fn read(path: &Path) -> FileSchema {
        let schema: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        FileSchema(schema)
    }
    /// Is the value as the schema says? Gives the branches that it has met.
    pub fn check(&self, value: &Value) -> Result<Vec<String>, String> {
        let mut met = Vec::new();
        self.holds(&self.0, value, "", &mut met)?;
        Ok(met)
    }
    /// All branches: what stands in an `oneOf`, by its place.
    pub fn branches(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        self.collect(&self.0, "", &mut all);
        all
    }
    fn collect(&self, schema: &Value, at: &str, all: &mut BTreeSet<String>) {
        let schema = self.resolved(schema);
        for (k, branch) in schema["oneOf"].as_array().into_iter().flatten().enumerate() {
            all.insert(format!("{at}#{k}"));
            self.collect(branch, &format!("{at}#{k}"), all);
        }
        for (name, part) in schema["properties"].as_object().into_iter().flatten() {
            self.collect(part, &format!("{at}/{name}"), all);
        }
        if schema["items"].is_object() {
            self.collect(&schema["items"], &format!("{at}/*"), all);
        }
    }
    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(name) => &self.0["$defs"][name.strip_prefix("#/$defs/").unwrap()],
            None => schema,
        }
    }
    fn holds(&self, schema: &Value, value: &Value, at: &str, met: &mut Vec<String>) -> Result<(), String> {
        let schema = self.resolved(schema);
        let words = schema.as_object().unwrap();
        let fail = |why: &str| Err(format!("`{at}`: {why}"));
        for (word, says) in words {
            let right = match word.as_str() {
                "type" => match says {
                    Value::Array(types) => types.iter().any(|says| is_of(value, says.as_str().unwrap())),
                    says => is_of(value, says.as_str().unwrap()),
                },
                "const" => value == says,
                "enum" => says.as_array().unwrap().contains(value),
                "minimum" => value.as_f64().is_none_or(|v| v >= says.as_f64().unwrap()),
                "maximum" => value.as_f64().is_none_or(|v| v <= says.as_f64().unwrap()),
                "exclusiveMinimum" => value.as_f64().is_none_or(|v| v > says.as_f64().unwrap()),
                "required" => value.as_object().is_none_or(|v| says.as_array().unwrap().iter().all(|name| v.contains_key(name.as_str().unwrap()))),
                "properties" | "additionalProperties" | "items" | "oneOf" => true,
                silent if SILENT.contains(&silent) => true,
                other => unreachable!("`{other}` is not known here"),
            };
            if !right {
                return fail(&format!("{word} is {says:.80}, and there is {value:.80}"));
            }
        }
        if let Value::Object(fields) = value {
            for (name, part) in fields {
                match (words.get("properties").and_then(|p| p.get(name)), words.get("additionalProperties")) {
                    (Some(of), _) | (None, Some(of @ Value::Object(_))) => self.holds(of, part, &format!("{at}/{name}"), met)?,
                    (None, Some(Value::Bool(false))) => return fail(&format!("nothing is called `{name}`")),
                    (None, _) => {}
                }
            }
        }
        if let (Value::Array(parts), Some(of)) = (value, words.get("items")) {
            parts.iter().try_for_each(|part| self.holds(of, part, &format!("{at}/*"), met))?;
        }
        if let Some(Value::Array(branches)) = words.get("oneOf") {
            let mut right = Vec::new();
            let mut why = String::new();
            for (k, branch) in branches.iter().enumerate() {
                let (place, mut inner) = (format!("{at}#{k}"), Vec::new());
                match self.holds(branch, value, &place, &mut inner) {
                    Ok(()) => right.push((place, inner)),
                    // Of several the reason that is of the same kind tells most.
                    Err(reason) if why.is_empty() || !reason.contains("const is") => why = reason,
                    Err(_) => {}
                }
            }
            match right.pop() {
                Some((place, inner)) if right.is_empty() => met.extend(inner.into_iter().chain([place])),
                Some(_) => return fail("more than one branch holds"),
                None => return Err(why),
            }
        }
        Ok(())
    }
}
fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|v| v.fract() == 0.0),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => unreachable!("no type is called `{other}`"),
    }
}
/// A value without its numbers and texts: which fields it has, and of which types.
pub fn shape_of(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, part)| format!("{name}:{},", if name == "kind" { part.to_string() } else { shape_of(part) })).collect()
        }
        Value::Array(parts) => format!("[{}]", parts.first().map(shape_of).unwrap_or_default()),
        Value::Null => "0".into(),
        Value::Bool(_) => "b".into(),
        Value::Number(_) => "1".into(),
        Value::String(_) => "s".into(),
    }
}
/// Objects whose fields have names of the run's own.
const MAPS: [&str; 4] = ["/grad_norms", "/values", "/valid", "/precision/overflows"];
/// What all values of a file have in common: which fields are there in each object of a place. Told by the values alone, so that a schema that takes
/// too much is noticed.
#[derive(Default)]
pub struct CommonFields(BTreeMap<String, BTreeSet<String>>);
impl CommonFields {
    pub fn of(values: &[Value]) -> CommonFields {
        let mut common = CommonFields::default();
        values.iter().for_each(|value| common.take(value, &kind_of(value)));
        common
    }
    fn take(&mut self, value: &Value, at: &str) {
        match value {
            Value::Object(fields) => {
                let names: BTreeSet<String> = fields.keys().cloned().collect();
                self.0.entry(at.into()).and_modify(|common| common.retain(|name| names.contains(name))).or_insert(names);
                fields.iter().for_each(|(name, part)| self.take(part, &format!("{at}/{name}")));
            }
            Value::Array(parts) => parts.iter().for_each(|part| self.take(part, &format!("{at}/*"))),
            _ => {}
        }
    }
    /// The value with one fault each: a field that is there in all of them gone, one of another name, one of another type, one too many.
    pub fn mutations(&self, value: &Value) -> Vec<(String, Value)> {
        let mut all = Vec::new();
        self.plant(value, &kind_of(value), &mut |what, changed| all.push((what, changed)));
        all
    }
    fn plant(&self, value: &Value, at: &str, give: &mut dyn FnMut(String, Value)) {
        match value {
            Value::Object(fields) => {
                let with = |change: &dyn Fn(&mut Map<String, Value>)| {
                    let mut changed = fields.clone();
                    change(&mut changed);
                    Value::Object(changed)
                };
                let is_map = MAPS.iter().any(|map| at.ends_with(map));
                if !is_map {
                    give(format!("one more in `{at}`"), with(&|fields| drop(fields.insert("one_more".into(), 1.into()))));
                }
                for (name, part) in fields {
                    let place = format!("{at}/{name}");
                    // Which names a map has is the run's affair; those of a validation are both.
                    if self.0[at].contains(name) && (!is_map || ["loss", "accuracy", "rows"].contains(&name.as_str()) && at.ends_with("/valid")) {
                        give(format!("`{place}` gone"), with(&|fields| drop(fields.remove(name))));
                    }
                    let renamed = |fields: &mut Map<String, Value>| {
                        let part = fields.remove(name).unwrap_or_default();
                        fields.insert(format!("{name}_"), part);
                    };
                    if !is_map {
                        give(format!("`{place}` renamed"), with(&renamed));
                    }
                    for other in others(part) {
                        give(format!("`{place}` as {other}"), with(&|fields| drop(fields.insert(name.clone(), other.clone()))));
                    }
                    self.plant(part, &place, &mut |what, changed| give(what, with(&|fields| drop(fields.insert(name.clone(), changed.clone())))));
                }
            }
            Value::Array(parts) => {
                if let Some(first) = parts.first() {
                    let mut with = |what: String, changed: Value| {
                        let mut all = parts.clone();
                        all[0] = changed;
                        give(what, Value::Array(all));
                    };
                    with(format!("`{at}/*` as a list"), json!([["no"]]));
                    self.plant(first, &format!("{at}/*"), &mut with);
                }
            }
            _ => {}
        }
    }
}
/// What a line is of: lines of other kinds have other fields.
fn kind_of(value: &Value) -> String {
    ["kind", "action"].into_iter().filter_map(|name| value[name].as_str()).collect::<Vec<_>>().join(" ")
}
/// What cannot stand in a value's place, whatever a schema says: told by the value alone.
fn others(value: &Value) -> Vec<Value> {
    let mut all = vec![json!({ "no": "such" }), json!([["no"]])];
    if !value.is_null() && !value.is_string() {
        all.push(json!("no such text"));
    }
    if !value.is_boolean() {
        all.push(json!(true));
    }
    // A number of the computation is written with a point, a count is not.
    if value.is_u64() {
        all.push(json!(-1.5));
    }
    all
}
