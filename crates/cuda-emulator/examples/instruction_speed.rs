//! How long the machine takes for an instruction of a warp: `cargo run --release -p adamant-cuda-emulator --example instruction_speed`.
//!
//! Each row is a loop whose body is eight times what is named; what is printed is the time of the launch by all instructions
//! that ran, the loop's own three among them.
use adamant_cuda_emulator::{
    machine::{Conduct, Launch, Loaded, Module, run},
    memory::DeviceMemory,
};
use std::{error::Error, time::Instant};

const BODIES: &[(&str, &str)] = &[
    ("add.s32", "add.s32 %r4, %r4, %r5;"),
    ("mad.lo.s32", "mad.lo.s32 %r4, %r4, %r5, %r6;"),
    ("add.s64", "add.s64 %rd4, %rd4, %rd5;"),
    ("shl, and", "shl.b32 %r6, %r4, 3; and.b32 %r4, %r6, 255;"),
    ("add.f32", "add.f32 %f4, %f4, %f5;"),
    ("fma.rn.f32", "fma.rn.f32 %f4, %f4, %f5, %f6;"),
    ("fma.rn.f64", "fma.rn.f64 %fd4, %fd4, %fd5, %fd6;"),
    ("div.rn.f32", "div.rn.f32 %f4, %f5, %f6;"),
    ("ex2.approx.f32", "ex2.approx.f32 %f4, %f5;"),
    ("setp, selp", "setp.lt.f32 %p2, %f4, %f5; selp.f32 %f6, %f4, %f5, %p2;"),
    ("cvt.rn.f32.s32", "cvt.rn.f32.s32 %f4, %r4;"),
    ("ld.global.f32", "ld.global.f32 %f4, [%rd2];"),
    ("ld.global.v4.f32", "ld.global.v4.f32 {%f4, %f5, %f6, %f7}, [%rd3];"),
    ("st.global.f32", "st.global.f32 [%rd2], %f5;"),
    ("ld.shared.f32", "ld.shared.f32 %f4, [%r3];"),
    ("st.shared.f32", "st.shared.f32 [%r3], %f5;"),
    ("shfl.sync", "shfl.sync.bfly.b32 %r4, %r5, 3, 31, -1;"),
    ("ldmatrix.x4", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r9];"),
    ("mma.m16n8k16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f4, %f5, %f6, %f7}, {%r4, %r5, %r6, %r7}, {%r4, %r5}, {%f4, %f5, %f6, %f7};"),
];

fn text(body: &str) -> String {
    format!(
        ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .u32 p1) {{
.reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<20>; .reg .f64 %fd<20>; .reg .pred %p<9>; .shared .align 16 .b8 s[1024];
mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; cvta.to.global.u64 %rd1, %rd0; mad.wide.u32 %rd2, %r0, 4, %rd1; mad.wide.u32 %rd3, %r0, 16, %rd1;
mov.u32 %r2, s; mad.lo.s32 %r3, %r0, 4, %r2; mad.lo.s32 %r9, %r0, 16, %r2; mov.b32 %r10, 0; st.shared.v4.b32 [%r9], {{%r10, %r10, %r10, %r10}}; bar.sync 0;
ld.param.u32 %r1, [p1]; mov.u32 %r8, 0;
mov.b32 %r4, 5; mov.b32 %r5, 3; mov.b32 %r6, 9; mov.b32 %f4, 0f3F800000; mov.b32 %f5, 0f3F000000; mov.b32 %f6, 0f40000000; mov.b32 %f7, 0f00000000;
mov.b64 %rd4, 5; mov.b64 %rd5, 3; cvt.f64.f32 %fd4, %f4; cvt.f64.f32 %fd5, %f5; cvt.f64.f32 %fd6, %f6;
LOOP: {}
add.s32 %r8, %r8, 1; setp.lt.s32 %p1, %r8, %r1; @%p1 bra LOOP;
ret; }}\n",
        body.repeat(8)
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    for (name, body) in BODIES {
        let memory = DeviceMemory::new(1 << 20);
        let loaded = Loaded::new(Module::parse(&text(body))?, &memory)?;
        let buffer = memory.allocate(4096).ok_or("no memory")?;
        memory.write(buffer, &[0; 4096])?;
        let mut parameters = buffer.to_le_bytes().to_vec();
        parameters.extend(500u32.to_le_bytes());
        let launch = Launch { kernel: "k", grid: [1; 3], block: [32, 1, 1], dynamic_shared: 0, parameters: &parameters };
        let (mut best, mut instructions) = (f64::INFINITY, 0);
        for _ in 0..40 {
            let start = Instant::now();
            instructions = run(&loaded, &launch, &memory, &Conduct::default())?.instructions;
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!("{name:<18} {:7.1} ns", best * 1e9 / instructions as f64);
    }
    Ok(())
}
