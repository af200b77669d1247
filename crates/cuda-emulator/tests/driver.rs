//! The driver as `cudarc` sees it: what each call answers, and what has happened when it returns.
#![allow(unsafe_code, reason = "the driver's functions are C's")]
mod calls;

use calls::*;

#[test]
fn memory_comes_back_as_it_was_sent() {
    let _machine = machine(options());
    let a = upload(&[1.0_f32, 2.0, 3.0]);
    let b = alloc(12);
    assert_eq!(cu!(cuMemcpyDtoD_v2(b, a, 12)), 0);
    assert_eq!(download::<f32>(b, 3), [1.0, 2.0, 3.0]);
    assert_eq!(cu!(cuMemsetD32_v2(b + 4, 0x3f80_0000, 2)), 0);
    assert_eq!(download::<f32>(b, 3), [1.0, 1.0, 1.0]);
}
