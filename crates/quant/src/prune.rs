//! Pruning: weights that are zero and stay so.
