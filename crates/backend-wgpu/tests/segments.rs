//! Segment reductions on an adapter: all kinds, cuts and dtypes, gradients, tangents and `vmap`, as the reference has them. Where the
//! machine has no adapter the test says so and checks nothing else.
mod common;

use adamant_backend_wgpu::WgpuBackend;
use adamant_conformance::segments;
use common::device_of;

/// Cases, their seed, and elements of a long segment: most are of two blocks and more, some longer than the loops of an invocation may
/// be, which Mesa's llvmpipe ends after 65,535 rounds.
const DRAWN: [(usize, u64, usize); 2] = [(96, 2, 16_000), (32, 3, 300_000)];

#[test]
fn a_segment_is_combined_otherwise_than_the_reference_does() {
    let Some(device) = device_of(WgpuBackend::open_with_cache(0, None)) else { return };
    for (cases, seed, longest) in DRAWN {
        let (wrong, [long, empty]) = segments::run(device, cases, seed, false, longest);
        println!("{cases} cases, {long} with a segment of some {longest}, {empty} with one of nothing, {} wrong", wrong.len());
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
        assert!(long >= cases / 12 && empty >= cases / 4, "{long} long, {empty} with segments of nothing");
    }
}
