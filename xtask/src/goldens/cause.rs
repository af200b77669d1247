//! Why a case is unsupported. Two causes are a device's right: a dtype that it has not, and ops that are defined on the
//! host. Any other is a failure.
use adamant::{Error, ErrorKind};
use std::fmt;

/// What a refusal comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// the device has no such dtype
    Dtype(String),
    /// the op is defined on the host, and the inputs are not there
    HostOnly(String),
    /// there is no such thing in the library
    Missing(String),
}
impl RefusalCause {
    /// The cause, if the error is one of those.
    pub fn of(e: &Error) -> Option<RefusalCause> {
        match e.kind() {
            ErrorKind::Unsupported { backend, what } if backend == "goldens" => Some(RefusalCause::Missing(what.clone())),
            ErrorKind::Unsupported { what, .. } => match (what.split_once("it has no "), what.split_once(" runs on the host")) {
                (Some((_, dtype)), _) => Some(RefusalCause::Dtype(dtype.to_string())),
                (_, Some((op, _))) => Some(RefusalCause::HostOnly(op.to_string())),
                _ => None,
            },
            _ => None,
        }
    }
}
impl fmt::Display for RefusalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefusalCause::Dtype(name) => write!(f, "dtype {name} absent"),
            RefusalCause::HostOnly(op) => write!(f, "host-only op {op}"),
            RefusalCause::Missing(what) => write!(f, "not in the library: {what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_is_no_device_s_right_is_no_cause() {
        let of = |what: &str| RefusalCause::of(&Error::new("exp", ErrorKind::Unsupported { backend: "wgpu".into(), what: what.into() }));
        assert_eq!(of("map on f32, f64; it has no f64"), Some(RefusalCause::Dtype("f64".into())));
        assert_eq!(of("adamant.svd runs on the host; move its inputs with `.to(cpu)`"), Some(RefusalCause::HostOnly("adamant.svd".into())));
        for other in ["map on f32", "a kernel of 9 buffers: this adapter binds at most 8 at once"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
