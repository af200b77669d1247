//! The running state as a state dict names it. What does not depend on a rule is compiled once for all of them.
use super::{Clock, ParameterState, STEP};
use adamant_core::{Cell, DType, Device, Error, ErrorKind, Result, Tensor};
use adamant_nn::Param;
use std::collections::BTreeMap;

/// The slots as `<parameter path>.<slot>`; counts and running numbers are numbers (f64).
pub(crate) fn dict(parameters: &[Param], states: &BTreeMap<usize, ParameterState>, clocks: &[Clock]) -> Vec<(String, Tensor)> {
    let number = |cell: &Cell| cell.detached().to(Device::reference()).cast(DType::F64);
    let clocks: Vec<BTreeMap<&str, Tensor>> =
        clocks.iter().map(|c| c.numbers.iter().map(|(name, cell)| (*name, number(cell))).chain([(STEP, number(&c.count))]).collect()).collect();
    let none = BTreeMap::new();
    let mut all = Vec::new();
    for p in parameters {
        let Some(s) = states.get(&p.id()) else { continue };
        let path = p.path();
        let numbers = s.clock.and_then(|k| clocks.get(k)).unwrap_or(&none);
        let there = |name: &str| numbers.contains_key(name) || s.cells.contains_key(name);
        let loaded = s.loaded.iter().filter(|(name, _)| !there(name));
        all.extend(numbers.iter().map(|(name, v)| (format!("{path}.{name}"), v.clone())));
        all.extend(s.cells.iter().map(|(name, slot)| (format!("{path}.{name}"), slot.cell.detached())));
        all.extend(loaded.map(|(name, t)| (format!("{path}.{name}"), t.clone())));
    }
    all
}
/// States of what [`dict`] gave, by the parameters' ids.
#[track_caller]
pub(crate) fn loaded(parameters: &[Param], state: &[(String, Tensor)]) -> Result<BTreeMap<usize, ParameterState>> {
    let mut fresh: BTreeMap<usize, ParameterState> = BTreeMap::new();
    let by_path: BTreeMap<String, usize> = parameters.iter().map(|p| (p.path().to_string(), p.id())).collect();
    for (name, value) in state {
        let (path, slot) = name.rsplit_once('.').unwrap_or(("", name));
        let Some(id) = by_path.get(path) else {
            let error = Error::new("load_state_dict", ErrorKind::Argument(format!("`{name}` is a slot of no parameter of this optimizer")));
            return Err(match adamant_nn::nearest(path, by_path.keys().map(String::as_str)) {
                Some(near) => error.hint(format!("there is `{near}`")),
                None => error,
            });
        };
        let value = value.clone().ok()?;
        if slot == STEP {
            let steps = value.item::<f64>()?;
            if steps < 0.0 || steps.fract() != 0.0 || steps > f64::from(u32::MAX) {
                return Err(Error::new("load_state_dict", ErrorKind::Argument(format!("`{name}` is {steps}, which is no count of steps"))));
            }
        }
        fresh.entry(*id).or_default().loaded.insert(slot.to_string(), value);
    }
    Ok(fresh)
}
