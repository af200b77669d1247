//! stub
pub(super) mod contest;
