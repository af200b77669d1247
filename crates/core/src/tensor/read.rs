//! Reading tensors.
