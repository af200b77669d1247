//! The proofs of the design (`core/tests/proofs`) on the CPU.
#[path = "../../core/tests/proofs/mod.rs"]
mod proofs;
use adamant_backend_cpu::{Context, CpuBackend};
use adamant_core::{Device, Result};

fn device(threads: usize) -> Result<Device> {
    Ok(Context::new(CpuBackend::builder().threads(threads))?.device())
}
#[test]
fn proof_1_a_gpt2_block_saves_no_more_than_pytorch_and_replays() -> Result<()> {
    proofs::gpt2_block(device(2)?)
}
#[test]
fn proof_2_checkpoint_and_compile_have_the_bits_of_the_plain_loop() -> Result<()> {
    proofs::checkpoint_and_compile(device(2)?)
}
#[test]
fn proof_3_decoding_with_a_kv_cell_misses_no_plan_and_copies_no_cache() -> Result<()> {
    proofs::kv_cache(device(2)?)
}
#[test]
fn proof_4_two_ranks_end_with_the_same_weights() -> Result<()> {
    proofs::two_ranks(device(2)?)
}
#[test]
fn proof_5_faults_and_missing_memory_leave_the_weights() -> Result<()> {
    proofs::faults_and_memory(device(2)?)
}
#[test]
fn proof_6_the_same_bits_eagerly_with_clones_on_1_and_8_threads_in_batches_of_1_and_8() -> Result<()> {
    proofs::the_same_bits(&[device(1)?, device(8)?])
}
#[test]
fn proof_7_a_million_ops() -> Result<()> {
    proofs::a_million_ops(device(1)?)
}
