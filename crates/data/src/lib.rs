//! Data for training: tables from files, and batches in a seeded order.
//!
//! Architecture invariant: rows are host memory until they become a batch; this crate knows no layer and no backend.
#![forbid(unsafe_code)]

mod batch;
mod table;

pub use batch::{create_batches, permutation};
pub use table::Table;
