//! The proofs of the design on a backend of plain loops: nothing here can be owed to a clever kernel.
mod naive;
mod proofs;
use adamant_core::Result;

fn device() -> adamant_core::Device {
    naive::device(2048, usize::MAX)
}
#[test]
fn proof_1_a_gpt2_block_saves_no_more_than_pytorch_and_replays() -> Result<()> {
    proofs::gpt2_block(device())
}
#[test]
fn proof_2_checkpoint_and_compile_have_the_bits_of_the_plain_loop() -> Result<()> {
    proofs::checkpoint_and_compile(device())
}
#[test]
fn proof_3_decoding_with_a_kv_cell_misses_no_plan_and_copies_no_cache() -> Result<()> {
    proofs::kv_cache(device())
}
#[test]
fn proof_4_two_ranks_end_with_the_same_weights() -> Result<()> {
    proofs::two_ranks(device())
}
#[test]
fn proof_5_faults_and_missing_memory_leave_the_weights() -> Result<()> {
    proofs::faults_and_memory(device())
}
#[test]
fn proof_6_bits_do_not_depend_on_fusion_clones_or_batch() -> Result<()> {
    proofs::the_same_bits(&[device()])
}
#[test]
fn proof_7_a_million_ops() -> Result<()> {
    proofs::a_million_ops(device())
}
