//! Files that hold tensors. A reader opens the header, and reads only the tensors that are asked for; every length is
//! checked before memory is allocated for it. A writer writes beside the file and renames, so a file is whole or absent.
//!
//! Architecture invariant: knows core and nothing of layers, optimizers or backends.
#![forbid(unsafe_code)]

pub mod safetensors;
