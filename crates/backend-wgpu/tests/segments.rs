//! Segment reductions on an adapter: all kinds, cuts and dtypes, gradients, tangents and `vmap`, as the reference has them. Where the
//! machine has no adapter the test says so and checks nothing else.
mod common;

use adamant_backend_wgpu::WgpuBackend;
use adamant_conformance::segments;
use common::device_of;

/// Mesa's llvmpipe ends the loops of a kernel after some 65,000 rounds, those of four bytes of a word together, and goes on.
const LONGEST: usize = 16_000;

#[test]
fn a_segment_is_combined_otherwise_than_the_reference_does() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    let (wrong, [long, empty]) = segments::run(device, 96, 2, false, LONGEST);
    println!("96 cases, {long} with a long segment, {empty} with one of nothing, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(long >= 8 && empty >= 24, "{long} long, {empty} with segments of nothing");
}
