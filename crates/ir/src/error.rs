//! One typed error: what went wrong, in which op, at which line of the user, in which layer, and what to try.
use crate::{DType, Shape, TensorType};
use std::{fmt, panic::Location, sync::Arc};

mod hint;
pub use hint::Hint;

/// Shorthand for results of this library.
pub type Result<T> = std::result::Result<T, Error>;

/// An error with its origin. Cheap to clone: everything computed from a failed tensor carries the same one.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    /// what the user called
    called: &'static str,
    /// what was refused inside it, where that is something else
    inner: Option<&'static str>,
    origin: Origin,
    /// what the function was given
    given: Box<[TensorType]>,
    hint: Option<Hint>,
    /// is the hint the call's own, and not what the kind tells?
    own_hint: bool,
}

/// Where an op was applied: the source line, the path of layers, and the function that the user called there.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The line that applied the op.
    pub at: &'static Location<'static>,
    /// The scope (path of layers) it was applied in.
    pub scope: crate::scope::ScopeId,
    /// The function composed of ops that was called, if it was one: an error of any op inside names it.
    pub called: crate::scope::CalledId,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Two shapes do not go together.
    ShapeMismatch {
        /// the left or first shape
        left: Shape,
        /// the right or second shape
        right: Shape,
        /// the axis of each at which they differ, if it is one
        axes: Option<(usize, usize)>,
        /// what was expected
        expected: &'static str,
    },
    /// One shape is not what the op needs.
    Shape {
        /// the shape that was given
        shape: Shape,
        /// what was expected
        expected: String,
    },
    /// There is no such axis.
    Axis {
        /// the axis as given
        axis: isize,
        /// the number of axes there are
        rank: usize,
    },
    /// Two dtypes meet in one op.
    DtypeMismatch {
        /// the left dtype
        left: DType,
        /// the right dtype
        right: DType,
    },
    /// The op is not defined for the dtype, or a value does not fit it.
    Dtype(String),
    /// An index in the arguments or found in data is out of range.
    Index {
        /// the index
        index: i64,
        /// the axis it points into, where known
        axis: Option<usize>,
        /// the size of that axis
        bound: usize,
        /// its position in the index tensor, where known
        position: Option<usize>,
    },
    /// An argument outside its range.
    Argument(String),
    /// Values outside the mathematical domain (a singular matrix, an integer division by zero).
    Domain(String),
    /// Tensors on two devices meet in one op.
    DeviceMismatch {
        /// the left device
        left: String,
        /// the right device
        right: String,
    },
    /// The device is not there or not compiled in.
    DeviceAbsent(String),
    /// The device was lost; its values are gone.
    DeviceLost(String),
    /// The backend cannot do this op.
    Unsupported {
        /// the backend's name
        backend: String,
        /// what it cannot do
        what: String,
    },
    /// Memory could not be had. Nothing has run; values are still pending.
    OutOfMemory {
        /// bytes asked for
        asked: usize,
        /// bytes in use by tensors on the device
        in_use: usize,
        /// the cap of the device's pool, if one is set
        cap: Option<usize>,
    },
    /// Data was read while a graph is being captured.
    Capturing,
    /// `backward` through a tape whose saved values were released by an earlier `backward`.
    TapeReleased,
    /// `backward` of something that is no single number, or that does not depend on any leaf.
    Backward(String),
    /// `checkpoint`'s closure captures a tracked tensor that is neither an input nor a parameter.
    CheckpointCapture,
    /// A graph breaks a rule of graphs, or its text cannot be read.
    Graph(Box<crate::graph::GraphError>),
    /// Something that a transform (vmap, jvp, grad) cannot do, and what to do instead.
    Transform(String),
    /// A file cannot be read or written.
    File {
        /// which file
        path: String,
        /// what is wrong with it
        reason: String,
    },
    /// Code that is not this library's (a backend, a kernel, the body of a composite) panicked. What it was to compute is
    /// not there; everything else is as it was.
    Panicked {
        /// whose code it was, and what it was asked for
        place: String,
        /// what the panic said
        message: String,
    },
    /// A rank of a group is gone, or does not answer.
    PeerLost {
        /// which
        rank: usize,
        /// what was waited for
        op: String,
        /// the number of that call in the group
        seq: u64,
        /// how it was seen
        why: String,
    },
    /// A rank of a group failed and told the others, whose calls it would have left waiting.
    PeerFailed {
        /// which
        rank: usize,
        /// what it said
        message: String,
    },
    /// Two ranks of a group call something else under one number.
    RanksDiffer {
        /// the number of the call
        seq: u64,
        /// what this rank calls
        own: String,
        /// the other rank
        rank: usize,
        /// what it calls
        other: String,
    },
    /// An engine for groups of ranks is not there, or is not one that is known; what was looked for, and what to install.
    EngineAbsent(String),
    /// A destructor of a thread-local asked for a computation, and what the thread computes with was destroyed before.
    ThreadEnding,
    /// A bug in this library, reported instead of a panic.
    Internal(String),
}

impl ErrorKind {
    /// The kind as one stable word: shape, axis, dtype, index, argument, domain, device, unsupported, memory, capture, backward, graph, transform, file, panic, peer, ranks, engine, thread, internal.
    pub fn word(&self) -> &'static str {
        match self {
            ErrorKind::ShapeMismatch { .. } | ErrorKind::Shape { .. } => "shape",
            ErrorKind::Axis { .. } => "axis",
            ErrorKind::DtypeMismatch { .. } | ErrorKind::Dtype(_) => "dtype",
            ErrorKind::Index { .. } => "index",
            ErrorKind::Argument(_) => "argument",
            ErrorKind::Domain(_) => "domain",
            ErrorKind::DeviceMismatch { .. } | ErrorKind::DeviceAbsent(_) | ErrorKind::DeviceLost(_) => "device",
            ErrorKind::Unsupported { .. } => "unsupported",
            ErrorKind::OutOfMemory { .. } => "memory",
            ErrorKind::Capturing => "capture",
            ErrorKind::TapeReleased | ErrorKind::Backward(_) | ErrorKind::CheckpointCapture => "backward",
            ErrorKind::Graph(_) => "graph",
            ErrorKind::Transform(_) => "transform",
            ErrorKind::File { .. } => "file",
            ErrorKind::Panicked { .. } => "panic",
            ErrorKind::PeerLost { .. } | ErrorKind::PeerFailed { .. } => "peer",
            ErrorKind::RanksDiffer { .. } => "ranks",
            ErrorKind::EngineAbsent(_) => "engine",
            ErrorKind::ThreadEnding => "thread",
            ErrorKind::Internal(_) => "internal",
        }
    }
}

impl Error {
    /// An error of `op` at the caller's line, in the current scope.
    #[track_caller]
    pub fn new(op: &'static str, kind: ErrorKind) -> Error {
        Error::at(op, kind, Origin::here())
    }
    /// An error with a known origin.
    pub fn at(op: &'static str, kind: ErrorKind, origin: Origin) -> Error {
        let own = op.strip_prefix("adamant.").unwrap_or(op);
        let called = crate::scope::called_name(origin.called).unwrap_or(own);
        let hint = Hint::of(&kind, called);
        // `conv` inside `conv2d`, or `arange_on` inside `arange`, is no second fact.
        let inner = (!called.starts_with(own) && !own.starts_with(called)).then_some(own);
        Error(Arc::new(Inner { kind, called, inner, origin, given: Box::default(), hint, own_hint: false }))
    }
    fn with(&self, change: impl FnOnce(&mut Inner)) -> Error {
        let Inner { kind, called, inner, origin, given, hint, own_hint } = &*self.0;
        let mut inner = Inner { kind: kind.clone(), called, inner: *inner, origin: *origin, given: given.clone(), hint: hint.clone(), own_hint: *own_hint };
        change(&mut inner);
        Error(Arc::new(inner))
    }
    /// The same error with a hint on what to try.
    #[must_use]
    pub fn hint(self, hint: impl Into<Hint>) -> Error {
        self.with(|e| (e.hint, e.own_hint) = (Some(hint.into()), true))
    }
    /// The same error of a function that was given these tensors.
    #[must_use]
    pub fn given(self, inputs: impl IntoIterator<Item = TensorType>) -> Error {
        self.with(|e| {
            e.given = inputs.into_iter().collect();
            if !e.own_hint {
                e.hint = Hint::of_given(&e.kind, &e.given).or(e.hint.take());
            }
        })
    }
    /// Shape and dtype of each tensor that the function was given, where known.
    pub fn inputs(&self) -> &[TensorType] {
        &self.0.given
    }
    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }
    /// The same error of an op in a scope, if it was met outside any: what a parameter adds, which knows its path.
    #[must_use]
    pub fn within(self, scope: crate::scope::ScopeId) -> Error {
        if self.0.origin.scope.0 != 0 {
            return self;
        }
        self.with(|e| e.origin.scope = scope)
    }
    /// The function that was called, as the user wrote it: `conv2d`, `mse_loss`.
    pub fn op(&self) -> &'static str {
        self.0.called
    }
    /// The op inside the called function that was refused, where it is not that function: `sub` in `mse_loss`.
    pub fn inner_op(&self) -> Option<&'static str> {
        self.0.inner
    }
    /// The source line that applied the op.
    pub fn location(&self) -> &'static Location<'static> {
        self.0.origin.at
    }
    /// The path of layers the op was applied in, empty outside any.
    pub fn scope(&self) -> String {
        crate::scope::path(self.0.origin.scope)
    }
    /// What to try, if there is something to say.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_ref().map(Hint::text)
    }
    /// The code in the hint, in terms of the operands `x`, or `left` and `right`.
    pub fn hint_code(&self) -> Option<&str> {
        self.0.hint.as_ref().and_then(Hint::snippet)
    }
}
impl Origin {
    /// The same line and layer, in the range of a profiler that this thread is in.
    #[inline]
    pub fn in_this_range(self) -> Origin {
        #[cfg(feature = "profiling")]
        return Origin { scope: crate::scope::in_this_range(self.scope), ..self };
        #[cfg(not(feature = "profiling"))]
        self
    }
    /// The caller's line in the current scope. Inside a function composed of ops, and while rules run: the origin they inherit.
    #[track_caller]
    #[inline]
    pub fn here() -> Origin {
        let here = Location::caller();
        crate::scope::inherited().unwrap_or_else(|| Origin { at: here, scope: crate::scope::current(), called: Default::default() })
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::ShapeMismatch { left, right, axes: Some((a, b)), expected } => {
                write!(f, "{expected}: left {left} axis {a} = {}, right {right} axis {b} = {}", left.get(*a).unwrap_or(&1), right.get(*b).unwrap_or(&1))
            }
            ErrorKind::ShapeMismatch { left, right, axes: None, expected } => write!(f, "{expected}: left {left}, right {right}"),
            ErrorKind::Shape { shape, expected } => write!(f, "shape {shape}: {expected}"),
            ErrorKind::Axis { axis, rank } => write!(f, "axis {axis} does not exist in a tensor of {rank} axes"),
            ErrorKind::DtypeMismatch { left, right } => write!(f, "dtypes differ: left {left}, right {right}"),
            ErrorKind::Dtype(s) | ErrorKind::Argument(s) | ErrorKind::Domain(s) | ErrorKind::Backward(s) | ErrorKind::Transform(s) => f.write_str(s),
            ErrorKind::Index { index, axis, bound, position } => {
                write!(f, "index {index}")?;
                position.map_or(Ok(()), |p| write!(f, " at position {p}"))?;
                match axis {
                    Some(axis) => write!(f, " is out of range for axis {axis}, of size {bound}"),
                    None => write!(f, " is out of range for an axis of size {bound}"),
                }
            }
            ErrorKind::DeviceMismatch { left, right } => write!(f, "tensors are on two devices: left {left}, right {right}"),
            ErrorKind::DeviceAbsent(s) => write!(f, "device not available: {s}"),
            ErrorKind::DeviceLost(s) => write!(f, "device lost: {s}"),
            ErrorKind::Unsupported { backend, what } => write!(f, "the {backend} backend cannot do this: {what}"),
            ErrorKind::OutOfMemory { asked, in_use, cap } => {
                write!(f, "out of memory: {asked} bytes asked for, {in_use} bytes in use by tensors")?;
                cap.map_or(Ok(()), |c| write!(f, ", cap {c} bytes"))
            }
            ErrorKind::Capturing => f.write_str("data was read while a graph is being captured"),
            ErrorKind::TapeReleased => f.write_str("the saved values of this graph were released by an earlier backward"),
            ErrorKind::CheckpointCapture => f.write_str("the checkpointed closure captures a tracked tensor that is neither an input nor a parameter"),
            ErrorKind::Graph(e) => write!(f, "{e}"),
            ErrorKind::File { path, reason } => write!(f, "{path}: {reason}"),
            ErrorKind::Panicked { place, message } => write!(f, "{place} panicked: {message}"),
            ErrorKind::PeerLost { rank, op, seq, why } => write!(f, "rank {rank} is lost: {why}, in call {seq}, {op}"),
            ErrorKind::PeerFailed { rank, message } => write!(f, "rank {rank} failed: {message}"),
            ErrorKind::RanksDiffer { seq, own, rank, other } => write!(f, "ranks differ in call {seq}: this one calls {own}, rank {rank} calls {other}"),
            ErrorKind::EngineAbsent(s) => write!(f, "engine not available: {s}"),
            ErrorKind::ThreadEnding => {
                f.write_str("this thread is ending, and what it computes with is gone; read tensors before, in a destructor of a thread-local only drop them")
            }
            ErrorKind::Internal(s) => write!(f, "internal error (please report it): {s}"),
        }
    }
}
impl Error {
    /// The tensors, as far as the kind has not told them.
    fn show_given(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = &*self.0.given;
        if let ([a, b], ErrorKind::ShapeMismatch { left, right, .. }) = (given, &self.0.kind)
            && (a.shape, b.shape, a.dtype) == (*left, *right, b.dtype)
        {
            return write!(f, ", both {}", a.dtype);
        }
        for (k, t) in given.iter().enumerate() {
            write!(f, "{}{} {}", if k == 0 { "; given " } else { ", " }, t.dtype, t.shape)?;
        }
        Ok(())
    }
}
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.called)?;
        if let Some(inner) = self.0.inner {
            write!(f, " (in its {inner})")?;
        }
        write!(f, ": {}", self.0.kind)?;
        self.show_given(f)?;
        let scope = self.scope();
        if !scope.is_empty() {
            write!(f, "; in {scope}")?;
        }
        // Called by the standard library (`str::parse`), which does not pass its caller on: no line is better than its.
        if !self.0.origin.at.file().starts_with("/rustc/") {
            write!(f, " ({}:{})", self.0.origin.at.file(), self.0.origin.at.line())?;
        }
        // A layer that the user calls directly is entered on the line that the op's origin names already.
        let entered = crate::scope::entered_at(self.0.origin.scope).filter(|l| (l.file(), l.line()) != (self.0.origin.at.file(), self.0.origin.at.line()));
        if let Some(entered) = entered {
            write!(f, ", called from {}:{}", entered.file(), entered.line())?;
        }
        if let Some(hint) = &self.0.hint {
            write!(f, ". Hint: {}", hint.text())?;
        }
        Ok(())
    }
}
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
impl std::error::Error for Error {}
