//! The form of an op: its name and its attributes, and the op again from them. The text, the hash and the search for common
//! subexpressions see ops through this alone, so an attribute that is missing in the file of a primitive is missing in all three.
use super::{Environment, Type};
pub(super) use crate::op::form::{FormContext, device_name};
use crate::{
    Attrs, DType, ErrorKind, Op, Shape,
    composite::Given,
    op::{
        Side, arg_reduce, collective, concat, conv,
        form::{Made, Maker, binary, binary_scalar, bitcast, cast, constant, iota, random_bits, select, stop_grad, transfer, unary},
        gather, matmul, pad, reduce, scan, scatter, segment_reduce, sort, update_slice, view, window,
    },
    scalar::{Binary, Unary},
};
use std::{collections::HashMap, sync::LazyLock};

macro_rules! forms {
    (planned { $($planned:ident: $planned_op:pat => $planned_fields:tt;)* } kernels { $($module:ident: $op:pat => $fields:tt;)* }) => {
        /// The attributes of an op, whose name is [`Op::name`].
        pub(super) fn attributes(op: &Op, inputs: &[Type], context: &mut FormContext<'_>) -> Attrs {
            match op {
                $($planned_op => $planned::attributes($planned_fields, inputs, context),)*
                $($op => $module::attributes($fields, inputs, context),)*
                Op::Composite(c) => c.attrs(),
            }
        }
        /// How ops are made of their attributes, by name; those of the scalar tables are not among them.
        fn makers() -> impl Iterator<Item = (&'static str, Maker)> {
            [$($planned::MAKERS,)* $($module::MAKERS,)*].into_iter().flatten().copied()
        }
    };
}
crate::primitives!(forms);

/// Ops whose form is their name.
enum Named {
    Maker(Maker),
    Unary(Unary),
    Binary(Binary),
}
static NAMED: LazyLock<HashMap<&'static str, Named>> = LazyLock::new(|| {
    let makers = makers().map(|(name, maker)| (name, Named::Maker(maker)));
    let unary = Unary::ALL.iter().map(|f| (f.name(), Named::Unary(*f)));
    let binary = Binary::ALL.iter().map(|f| (f.name(), Named::Binary(*f)));
    makers.chain(unary).chain(binary).collect()
});
/// The names of all primitives.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    NAMED.keys().copied()
}
/// Is there a primitive or a composite of this name?
pub(super) fn is_known(name: &str, environment: &dyn Environment) -> bool {
    NAMED.contains_key(name) || environment.has_composite(name)
}
/// The op of a name with these attributes, which are all taken. `output` is the type of its first output.
///
/// # Errors
/// An attribute that is missing, of the wrong kind, or too much; a composite that takes another number of inputs.
pub(super) fn op(name: &str, given: &mut Given, inputs: &[Type], output: Option<Type>, context: &FormContext<'_>) -> Result<Op, ErrorKind> {
    let made = match NAMED.get(name) {
        Some(Named::Unary(f)) => Op::Unary(*f),
        Some(Named::Binary(f)) => match given.text_or_none("scalar")?.as_deref() {
            None => Op::Binary(*f),
            Some("left") => Op::BinaryScalar(*f, Side::Left),
            Some("right") => Op::BinaryScalar(*f, Side::Right),
            Some(side) => return Err(ErrorKind::Argument(format!("the scalar stands `left` or `right`, not `{side}`"))),
        },
        Some(Named::Maker(maker)) => {
            let output = output.unwrap_or(Type { shape: Shape::SCALAR, dtype: DType::F32 });
            maker(&mut Made { given, inputs, output, context })?
        }
        None => {
            let built = context.environment.composite(name, given)?;
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
#[allow(clippy::unwrap_used, reason = "a test says what is wrong by a panic")]
mod tests {
    use super::{
        super::{Graph, GraphError, Reading, Why},
        *,
    };
    use crate::{Arg, DeviceId, PlacedType, Scalar, op::Group};
    use std::{collections::HashSet, sync::Arc};

    #[test]
    fn two_ops_of_one_name() {
        assert_eq!(NAMED.len(), makers().count() + Unary::ALL.len() + Binary::ALL.len());
    }

    /// All primitives but those of the scalar tables.
    const TEXT: &str = r#"adamant graph 1
group 0: ranks 3
input %x: f32[2, 4]
input %line: f32[4]
input %image: f32[1, 2, 5]
input %filter: f32[3, 2, 3]
input %made: f32[1, 3, 3]
input %flags: bool[2, 4]
input %index: i64[2, 4]
input %cuts: i64[2, 3]
input %key: u32[4]
%full: f32[3] = full() with 1.5
%iota: i64[2, 3] = iota() {axis: 1}
%random_bits: u32[5] = random_bits(%key)
%select: f32[2, 4] = select(%flags, %x, %line)
%cast: f16[2, 4] = cast(%x)
%bitcast: i32[2, 4] = bitcast(%x)
%reshape: f32[8] = reshape(%x)
%expand: f32[3, 4] = expand(%line)
%permute: f32[4, 2] = permute(%x) {perm: [1, 0]}
%slice: f32[2, 2] = slice(%x) {axis: 1, step: 2} from 1
%flip: f32[2, 4] = flip(%x) {axes: [0, 1]}
%diagonal: f32[2] = diagonal(%x) {axes: [0, 1]}
%windows: f32[2, 2, 3] = windows(%x) {axis: 1, step: 1}
%pad: f32[3, 3] = pad(%x) {widths: [0, 1, -1, 0]} with 0.5
%concat: f32[4, 4] = concat(%x, %x) {axis: 0}
%update_slice: f32[2, 4] = update_slice(%x, %slice) {axis: 1} from 2
%sum: f32[1, 1] = sum(%x) {axes: [0, 1]}
%prod: f32[1, 4] = prod(%x) {axes: [0]}
%amax: f32[2, 1] = amax(%x) {axes: [1]}
%amin: f32[2, 1] = amin(%x) {axes: [1]}
%matmul: f32[4, 4] = matmul(%permute, %x)
%conv: f32[1, 3, 3] = conv(%image, %filter) {stride: [1], padding: [0, 0], dilation: [1], groups: 1}
%conv_transpose: f32[1, 2, 5] = conv_transpose(%made, %filter) {stride: [1], padding: [0, 0], dilation: [1], groups: 1, open: [5]}
%conv_weight_grad: f32[3, 2, 3] = conv_weight_grad(%image, %made) {stride: [1], padding: [0, 0], dilation: [1], groups: 1, open: [3]}
%scatter: f32[2, 4] = scatter(%x, %index, %x) {axis: 1, mode: "mul"}
%to: f32[4] = to(%line) {device: "home"}
%to.1: f32[4] on "device 7" = to(%line) {device: "device 7"}
%all_reduce: f32[4] = all_reduce(%line) {group: 0, by: "max", parts: 0, apart: false}
%all_reduce.1: f32[4] = all_reduce(%x) {group: 0, by: "sum", parts: 8, apart: true}
%reduce_scatter: f32[1, 2, 3] = reduce_scatter(%filter) {group: 0, by: "min", parts: 0}
%all_gather: f32[12] = all_gather(%line) {group: 0, apart: true}
%broadcast: f32[4] = broadcast(%line) {group: 0, root: 2, apart: false}
%all_to_all: f32[3, 2, 3] = all_to_all(%filter) {group: 0}
%send: f32[4] = send(%line) {group: 0, peer: 2}
%receive: f32[4] = receive(%line) {group: 0, peer: 0}
%replicate: f32[4] = replicate(%line) {group: 0}
%barrier: f32[4] = barrier(%line) {group: 0}
%stop_grad: f32[4] = stop_grad(%line)
%argmax: i64[2, 1] = argmax(%x) {axis: 1}
%argmin: i64[1, 4] = argmin(%x) {axis: 0}
%cumsum: f32[2, 4] = cumsum(%x) {axis: 1, reverse: false}
%cumprod: f32[2, 4] = cumprod(%x) {axis: 1, reverse: true}
%cummax: f32[2, 4] = cummax(%x) {axis: 0, reverse: false}
%cummin: f32[2, 4] = cummin(%x) {axis: 0, reverse: false}
%linear_recurrence: f32[2, 4] = linear_recurrence(%x, %x) {axis: 1, reverse: false}
%max_pool: f32[1, 2, 2], %max_pool.1: i64[1, 2, 2] = max_pool(%image) {size: [2], stride: [2], padding: [0, 0], dilation: [1]}
%sum_pool: f32[1, 2, 2] = sum_pool(%image) {size: [2], stride: [2], padding: [0, 0], dilation: [1]}
%sum_pool_transposed: f32[1, 2, 5] = sum_pool_transposed(%sum_pool) {size: [2], stride: [2], padding: [0, 0], dilation: [1], open: [5]}
%gather: f32[2, 4] = gather(%x, %index) {axis: 1}
%sort: f32[2, 4], %sort.1: i64[2, 4] = sort(%x) {axis: 1, descending: true}
%segment_sum: f32[2, 2] = segment_sum(%x, %cuts) {axis: 1}
%segment_max: f32[2, 2] = segment_max(%x, %cuts) {axis: 1}
%segment_min: f32[2, 2] = segment_min(%x, %cuts) {axis: 1}
return
"#;
    #[test]
    fn a_primitive_whose_text_is_not_read_back() {
        let groups = vec![Group { id: 1, rank: 1, size: 3, handle: Arc::new(()) }];
        let reading = Reading::new(DeviceId(0)).groups(groups);
        let graph = Graph::parse(TEXT, &reading, &()).unwrap();
        assert_eq!(graph.text(&()).unwrap().text, TEXT);
        let of_tables = Unary::ALL.iter().map(|f| f.name()).chain(Binary::ALL.iter().map(|f| f.name()));
        let seen: HashSet<&str> = graph.nodes.iter().map(|node| node.op.name()).chain(of_tables).collect();
        assert_eq!(seen, names().collect::<HashSet<_>>());
    }
    /// Each function on the first dtype that it takes.
    #[test]
    fn a_scalar_function_whose_text_is_not_read_back() {
        let dtypes = [DType::F32, DType::I32, DType::Bool];
        let mut graph = Graph::new(DeviceId(0));
        let inputs = dtypes.map(|dtype| graph.add_input(None, Type { shape: Shape::along(0, 3, 1), dtype }, DeviceId(0)));
        let mut count = inputs.len();
        let mut apply = |op: Op, operands: usize| {
            count += 1;
            let taken = dtypes.into_iter().zip(inputs).any(|(dtype, x)| {
                let number = if dtype.is_float() { Scalar::Float(2.0) } else { Scalar::Int(1) };
                let number = if dtype == DType::Bool { Scalar::Bool(true) } else { number };
                let arg = if matches!(op, Op::BinaryScalar(..)) { Arg::Scalar(number) } else { Arg::None };
                graph.apply(op.clone(), arg, &[x, x][..operands], Default::default(), Default::default(), &()).is_ok()
            });
            assert!(taken, "{op:?} takes none of {dtypes:?}");
        };
        Unary::ALL.iter().for_each(|f| apply(Op::Unary(*f), 1));
        for f in Binary::ALL {
            apply(Op::Binary(*f), 2);
            [Side::Left, Side::Right].into_iter().for_each(|side| apply(Op::BinaryScalar(*f, side), 1));
        }
        let text = graph.text(&()).unwrap().text;
        let read = Graph::parse(&text, &Reading::new(DeviceId(0)), &()).unwrap();
        assert_eq!((read.text(&()).unwrap().text, read.values.len()), (text, count));
        assert_eq!((read.hash(&()), read.structure(&())), (graph.hash(&()), graph.structure(&())));
    }
    #[test]
    fn a_name_that_nobody_answers_for() {
        let read = |line: &str| Graph::parse(&format!("adamant graph 1\ninput %x: f32[2]\n{line}\nreturn %x"), &Reading::new(DeviceId(0)), &());
        for (line, told) in [
            ("%y: f32[2] = adamant.softmax(%x) {axis: 0}", "there is no op `adamant.softmax`"),
            ("%y: f32[2] = to(%x) {device: \"moon\"}", "`moon` is no device"),
            ("group 0: ranks 3", "group 0 was not given"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
        // Two devices that only their numbers tell apart.
        let mut graph = Graph::new(DeviceId(0));
        let ty = Type { shape: Shape::SCALAR, dtype: DType::F32 };
        let inputs = [0, 1].map(|k| graph.add_input(None, ty, DeviceId(k)));
        assert_eq!(graph.placed(inputs[1]), PlacedType { ty, place: DeviceId(1) });
        let error = graph.apply(Op::Binary(Binary::Add), Arg::None, &inputs, Default::default(), Default::default(), &()).unwrap_err();
        let GraphError::Invalid(invalid) = error else { unreachable!("{error}") };
        assert!(matches!(&invalid.why, Why::Op(kind) if matches!(**kind, ErrorKind::DeviceMismatch { .. })), "{invalid}");
    }
}
