//! Files that hold tensors. A reader opens the header, and reads only the tensors that are asked for; every length is
//! checked before memory is allocated for it. A writer writes beside the file and renames, so a file is whole or absent.
//!
//! Memory: a reader holds at most the file's size twice, and a mebibyte, whatever the file says. Of what is compressed,
//! it is the size that the archive declares, taken as data arrives.
//!
//! Architecture invariant: knows core and nothing of layers, optimizers or backends.

mod elements;
pub mod gguf;
#[cfg(feature = "mmap")]
pub mod mmap;
pub mod npy;
#[cfg(feature = "npz")]
pub mod npz;
pub mod regular;
pub mod safetensors;
mod shown;
pub mod weights;
pub mod whole;
#[cfg(feature = "npz")]
mod zip;

pub use elements::{from_bytes, to_tensor};
pub use npy::{read_npy, write_npy};
#[cfg(feature = "npz")]
pub use npz::{read_npz, write_npz};
pub use shown::{shown, shown_reason};
