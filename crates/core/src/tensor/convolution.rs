//! convolution
