//! The form of an op: its name and its attributes, and the op again from them. The text, the hash and the search for common
//! subexpressions see ops through this alone, so an attribute that is missing in the file of a primitive is missing in all three.
use super::Type;
use crate::{
    Device, ErrorKind, Meta, Op, Shape,
    composite::{Given, build},
    op::Side,
    primitive::{
        self,
        form::{Made, Maker},
    },
    scalar::{Binary, Unary},
};
use std::{collections::HashMap, sync::LazyLock};

pub(super) use crate::primitive::{attributes, form::FormContext};

/// Ops whose form is their name.
enum Named {
    Maker(Maker),
    Unary(Unary),
    Binary(Binary),
}
static NAMED: LazyLock<HashMap<&'static str, Named>> = LazyLock::new(|| {
    let makers = primitive::makers().map(|(name, maker)| (name, Named::Maker(maker)));
    let unary = Unary::ALL.iter().map(|f| (f.name(), Named::Unary(*f)));
    let binary = Binary::ALL.iter().map(|f| (f.name(), Named::Binary(*f)));
    makers.chain(unary).chain(binary).collect()
});
/// The names of all primitives.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    NAMED.keys().copied()
}
/// Is there a primitive or a composite of this name?
pub(super) fn is_known(name: &str) -> bool {
    NAMED.contains_key(name) || crate::composite::is_registered(name)
}
/// The op of a name with these attributes, which are all taken. `output` is the kind of its first output.
///
/// # Errors
/// An attribute that is missing, of the wrong kind, or too much; a composite that takes another number of inputs.
pub(super) fn op(name: &str, given: &mut Given, inputs: &[Type], output: Option<(Type, Device)>, context: &FormContext) -> Result<Op, ErrorKind> {
    let made = match NAMED.get(name) {
        Some(Named::Unary(f)) => Op::Unary(*f),
        Some(Named::Binary(f)) => match given.text_or_none("scalar")?.as_deref() {
            None => Op::Binary(*f),
            Some("left") => Op::BinaryScalar(*f, Side::Left),
            Some("right") => Op::BinaryScalar(*f, Side::Right),
            Some(side) => return Err(ErrorKind::Argument(format!("the scalar stands `left` or `right`, not `{side}`"))),
        },
        Some(Named::Maker(maker)) => {
            let scalar = (Type { shape: Shape::SCALAR, dtype: crate::DType::F32 }, context.home);
            let (ty, device) = output.unwrap_or(scalar);
            let output = Meta { shape: ty.shape, dtype: ty.dtype, device };
            maker(&mut Made { given, inputs, output, context })?
        }
        None => {
            let built = build(name, given)?;
            if !built.inputs.contains(&inputs.len()) {
                let (least, most) = (built.inputs.start(), built.inputs.end());
                return Err(ErrorKind::Argument(format!("{name} with these attributes takes {least} to {most} inputs, not {}", inputs.len())));
            }
            Op::Composite(built.function)
        }
    };
    given.finish()?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ops_of_one_name() {
        assert_eq!(NAMED.len(), primitive::makers().count() + Unary::ALL.len() + Binary::ALL.len());
    }
}
