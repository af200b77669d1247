//! What else texts compile to: calls of functions, structures by value, arrays of a thread, switches, all atomics, what the
//! lanes of a warp do together, barriers that count; and texts of PTX that are damaged.
mod rig;
use adamant_cuda_emulator::{
    machine::{Conduct, FindingKind, Launch, Loaded, Module, run},
    memory::DeviceMemory,
};
use half::{bf16, f16};
use rig::{Arg, Random, Rig, compile};

const CALLS: &str = r#"
__device__ int table[7] = {1, 2, 3, 4, 5, 6, 7};
__device__ int* pointer = &table[2];
__constant__ float coefficients[3] = {1.f, 2.f, 3.f};
struct Q { int a; short b; double c; float v[5]; };
__device__ __noinline__ float helper(float a, int b, double c) { return a * b + c; }
__device__ __noinline__ Q changed(Q q, int z) { q.a += z; q.v[z] = 3; return q; }
__device__ __noinline__ int parity(int n) { int p = 0; while (n) { p ^= n & 1; n >>= 1; } return p; }
extern "C" __global__ void calls(float* o, Q q, int n) {
    int i = threadIdx.x;
    float local[16];
    for (int k = 0; k < 16; k++) local[k] = k * i;
    Q r = changed(q, n);
    // Lanes that part go through the same function at different times.
    float x = i & 1 ? helper(i, 3, 0.5) : helper(i, 5, 1.5);
    o[i] = x + table[i % 7] * coefficients[i % 3] + local[(n + i) & 15] + r.a + r.b + (float)r.c + r.v[n] + parity(i) + *pointer;
}
extern "C" __global__ void switched(int* o, const int* x) {
    int i = threadIdx.x, y;
    switch (x[i]) {
        case 0: y = 17; break;
        case 1: y = i * 5; break;
        case 2: y = i ^ 99; break;
        case 3: y = 1000 / (i + 1); break;
        case 4: y = i << 3; break;
        case 5: y = -i; break;
        case 6: y = i * i; break;
        default: y = 7;
    }
    o[i] = y;
}
extern "C" __global__ void overflow(int* o, const int* x) {
    o[0] = x[0] + 1 > x[0];
    o[1] = (int)((unsigned)x[0] + 1u) > x[0];
}
"#;

#[test]
fn functions_structures_arrays_and_switches() {
    for arch in ["-arch=sm_75", "-arch=sm_90a", "-arch=sm_120"] {
        let Some(rig) = Rig::of(CALLS, &[arch]) else { return };
        // struct Q { int a = 4; short b = -2; double c = 2.5; float v[5] = {0..4} }, 40 bytes.
        let mut q = vec![0u8; 40];
        q[0..4].copy_from_slice(&4i32.to_le_bytes());
        q[4..6].copy_from_slice(&(-2i16).to_le_bytes());
        q[8..16].copy_from_slice(&2.5f64.to_le_bytes());
        for k in 0..5 {
            q[16 + 4 * k..20 + 4 * k].copy_from_slice(&(k as f32).to_le_bytes());
        }
        let o = rig.empty::<f32>(64);
        let n = 2i32;
        let parameters = [&o.to_le_bytes()[..], &q, &n.to_le_bytes()].concat();
        let launch = Launch { kernel: "calls", grid: [1; 3], block: [64, 1, 1], dynamic_shared: 0, parameters: &parameters };
        run(&rig.loaded, &launch, &rig.memory, &rig.conduct).unwrap_or_else(|finding| panic!("{arch}: {finding}"));
        let got: Vec<f32> = rig.download(o, 64);
        for i in 0..64i32 {
            let x = if i & 1 == 1 { i as f32 * 3.0 + 0.5 } else { i as f32 * 5.0 + 1.5 };
            let wanted = x + ((i % 7 + 1) * (i % 3 + 1)) as f32 + (((n + i) & 15) * i) as f32 + 6.0 - 2.0 + 2.5 + 3.0 + (i.count_ones() & 1) as f32 + 3.0;
            assert_eq!(got[i as usize], wanted, "{arch} {i}");
        }
        let x: Vec<i32> = (0..64).map(|i| (i * 7) % 9).collect();
        let (o, p) = (rig.empty::<i32>(64), rig.upload(&x));
        rig.go("switched", 1, 64, &[Arg::P(o), Arg::P(p)]);
        for (i, got) in rig.download::<i32>(o, 64).into_iter().enumerate() {
            let i = i as i32;
            let wanted = [17, i * 5, i ^ 99, 1000 / (i + 1), i << 3, -i, i * i, 7, 7][x[i as usize] as usize];
            assert_eq!(got, wanted, "{arch} case {} of {i}", x[i as usize]);
        }
        // The compiler takes signed overflow for impossible; this is what the emulator is there to show.
        let p = rig.upload(&[i32::MAX]);
        rig.go("overflow", 1, 1, &[Arg::P(o), Arg::P(p)]);
        assert_eq!(rig.download::<i32>(o, 2), [1, 0]);
    }
}

const ATOMICS: &str = r#"
extern "C" __global__ void atomics(unsigned* o, int* s, unsigned long long* l, float* f, double* d, unsigned* h) {
    __shared__ unsigned sh[2]; __shared__ float sf; __shared__ unsigned long long sl;
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) { sh[0] = 0; sh[1] = ~0u; sf = 0; sl = 0; }
    __syncthreads();
    atomicAdd(o, i); atomicSub(o + 1, i); atomicMin(o + 2, i + 3); atomicMax(o + 3, i); atomicInc(o + 4, 9); atomicDec(o + 5, 9);
    atomicAnd(o + 6, ~(1u << (i & 31))); atomicOr(o + 7, 1u << (i & 31)); atomicXor(o + 8, i);
    atomicMin(s, -(int)i); atomicMax(s + 1, (int)i - 100);
    atomicAdd(l, (unsigned long long)i << 32); atomicMax(l + 1, (unsigned long long)i << 40); atomicMin((long long*)l + 2, -(long long)i);
    atomicAdd(f, 0.5f); atomicAdd(d, 0.25);
    for (unsigned old = o[9 + 0 * i], seen;; old = seen) { seen = atomicCAS(o + 9, old, old * 3 + 1); if (seen == old) break; }
    atomicAdd(sh, i); atomicMin(sh + 1, i); atomicAdd(&sf, 1.f); atomicAdd(&sl, 1ull << 33);
    asm volatile("{ .reg .b32 %x; atom.global.add.noftz.f16x2 %x, [%0], %1; }" :: "l"(h), "r"(0x40003c00));
    asm volatile("red.global.add.noftz.bf16x2 [%0], %1;" :: "l"(h + 1), "r"(0x40003f80));
    __syncthreads();
    if (threadIdx.x == 0) { atomicAdd(o + 10, sh[0]); atomicMin(o + 11, sh[1]); atomicAdd(f + 1, sf); atomicAdd(l + 3, sl); }
}
"#;

#[test]
fn atomics_of_all_kinds() {
    // The first look at what is compared is plain, as compilers of C make it: here it is volatile.
    let text = ATOMICS.replace("unsigned old = o[9 + 0 * i]", "unsigned old = *(volatile unsigned*)(o + 9)");
    for seed in 0..8 {
        let Some(mut rig) = Rig::of(&text, &["-arch=sm_90a"]) else { return };
        rig.conduct = Conduct { seed, threads: 2, ..rig.conduct };
        let mut begin = [0u32; 12];
        (begin[2], begin[6], begin[11]) = (99, u32::MAX, 99);
        let o = rig.upload(&begin);
        let (s, l, f, d, h) = (rig.upload(&[0i32; 2]), rig.upload(&[0u64; 4]), rig.upload(&[0f32; 2]), rig.upload(&[0f64]), rig.upload(&[0u32; 2]));
        rig.go("atomics", 4, 64, &[o, s, l, f, d, h].map(Arg::P));
        let n = 256u32;
        let sum = n * (n - 1) / 2;
        let last = (0..n).fold(0u32, |x, _| x.wrapping_mul(3).wrapping_add(1));
        let wanted = [sum, sum.wrapping_neg(), 3, 255, n % 10, (10 - n % 10) % 10, 0, u32::MAX, (0..n).fold(0, |x, i| x ^ i), last, sum, 0];
        assert_eq!(rig.download::<u32>(o, 12), wanted);
        assert_eq!(rig.download::<i32>(s, 2), [-255, 155]);
        assert_eq!(rig.download::<u64>(l, 4), [u64::from(sum) << 32, 255 << 40, (-255i64) as u64, u64::from(n) << 33]);
        assert_eq!(rig.download::<f32>(f, 2), [128.0, 256.0]);
        assert_eq!(rig.download::<f64>(d, 1), [64.0]);
        let h = rig.download::<u32>(h, 2);
        assert_eq!([f16::from_bits(h[0] as u16), f16::from_bits((h[0] >> 16) as u16)], [f16::from_f32(256.0), f16::from_f32(512.0)]);
        assert_eq!([bf16::from_bits(h[1] as u16), bf16::from_bits((h[1] >> 16) as u16)], [bf16::from_f32(256.0), bf16::from_f32(512.0)]);
    }
}

const TOGETHER: &str = r#"
extern "C" __global__ void together(unsigned* o, const unsigned* x) {
    unsigned i = threadIdx.x, lane = i & 31, v = x[i], r; int p;
    auto put = [&](int k, unsigned value) { o[k * 64 + i] = value; };
    put(0, __shfl_sync(~0u, v, lane * 3)); put(1, __shfl_up_sync(~0u, v, 3)); put(2, __shfl_down_sync(~0u, v, 5, 16)); put(3, __shfl_xor_sync(~0u, v, 9));
    put(4, __ballot_sync(~0u, v & 1)); put(5, __any_sync(~0u, v == x[1])); put(6, __all_sync(~0u, v < 8));
    put(7, __match_any_sync(~0u, v & 3)); r = __match_all_sync(~0u, v >> 30, &p); put(8, r); put(9, p);
    asm volatile("redux.sync.add.s32 %0, %1, %2;" : "=r"(r) : "r"(v), "r"(~0u)); put(10, r);
    asm volatile("redux.sync.max.s32 %0, %1, %2;" : "=r"(r) : "r"(v - 4), "r"(~0u)); put(11, r);
    asm volatile("redux.sync.min.u32 %0, %1, %2;" : "=r"(r) : "r"(v - 4), "r"(~0u)); put(12, r);
    if (lane < 8) { put(13, __shfl_xor_sync(0xffu, v, 1)); put(14, __activemask()); } else { put(13, 0); put(14, 0xff); }
    put(15, __syncthreads_count(v & 1)); put(16, __syncthreads_or(v == 7)); put(17, __syncthreads_and(v < 8));
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(r)); put(18, r); asm volatile("mov.u32 %0, %%warpid;" : "=r"(r)); put(19, r);
}
"#;

#[test]
fn lanes_and_threads_together() {
    let Some(rig) = Rig::of(TOGETHER, &["-arch=sm_90a"]) else { return };
    let mut random = Random(2);
    let x: Vec<u32> = (0..64).map(|_| random.below(8) as u32).collect();
    let (o, p) = (rig.empty::<u32>(20 * 64), rig.upload(&x));
    rig.go("together", 1, 64, &[Arg::P(o), Arg::P(p)]);
    let got: Vec<u32> = rig.download(o, 20 * 64);
    for i in 0..64 {
        let (warp, lane) = (&x[i / 32 * 32..i / 32 * 32 + 32], i % 32);
        let mask = |f: &dyn Fn(u32) -> bool| warp.iter().enumerate().filter(|(_, v)| f(**v)).fold(0u32, |m, (k, _)| m | 1 << k);
        let wanted = [
            warp[lane * 3 % 32],
            warp[if lane >= 3 { lane - 3 } else { lane }],
            warp[if lane % 16 + 5 < 16 { lane + 5 } else { lane }],
            warp[lane ^ 9],
            mask(&|v| v & 1 == 1),
            u32::from(warp.contains(&x[1])),
            1,
            mask(&|v| v & 3 == warp[lane] & 3),
            u32::MAX,
            1,
            warp.iter().sum(),
            warp.iter().map(|v| *v as i32 - 4).max().unwrap() as u32,
            warp.iter().map(|v| v.wrapping_sub(4)).min().unwrap(),
            if lane < 8 { warp[lane ^ 1] } else { 0 },
            0xff,
            x.iter().filter(|v| **v & 1 == 1).count() as u32,
            u32::from(x.contains(&7)),
            1,
            (1 << lane) - 1,
            i as u32 / 32,
        ];
        for (k, wanted) in wanted.iter().enumerate() {
            assert_eq!(got[k * 64 + i], *wanted, "{k} of thread {i}");
        }
    }
}

#[test]
fn branches_by_table_and_barriers_by_number() {
    // Two warps write, one more waits for them at a barrier of its own; then a branch by a table.
    let text = ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {
.reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %p<4>; .shared .align 4 .b8 s[256];
mov.u32 %r0, %tid.x; mov.u32 %r1, s; shl.b32 %r2, %r0, 2; add.s32 %r3, %r1, %r2; setp.ge.u32 %p1, %r0, 64;
@%p1 bra READ;
st.shared.u32 [%r3], %r0;
bar.arrive 3, 96;
bra.uni JUMP;
READ: bar.sync 3, 96;
ld.shared.u32 %r4, [%r3+-256]; ld.shared.u32 %r5, [%r3+-128];
JUMP: and.b32 %r6, %r0, 3;
T: .branchtargets A, B, C, B;
brx.idx %r6, T;
A: mov.u32 %r7, 10; bra END;
B: mov.u32 %r7, 20; bra END;
C: mov.u32 %r7, 30;
END: @%p1 add.u32 %r7, %r7, %r4; @%p1 add.u32 %r7, %r7, %r5;
ld.param.u64 %rd0, [p]; mad.wide.u32 %rd1, %r0, 4, %rd0; st.global.u32 [%rd1], %r7; ret; }\n";
    for seed in 0..10 {
        let mut rig = Rig::new(text);
        rig.conduct.seed = seed;
        let o = rig.empty::<u32>(96);
        rig.go("k", 1, 96, &[Arg::P(o)]);
        for (i, got) in rig.download::<u32>(o, 96).into_iter().enumerate() {
            assert_eq!(got, [10, 20, 30, 20][i % 4] + if i < 64 { 0 } else { 2 * i as u32 - 96 }, "{i}");
        }
        // Without the barrier it is a race.
        let mut rig = Rig::new(&text.replace("READ: bar.sync 3, 96;", "READ:").replace("bar.arrive 3, 96;", ""));
        rig.conduct.seed = seed;
        let o = rig.empty::<u32>(96);
        let finding = rig.launch("k", [1; 3], [96, 1, 1], 0, &[Arg::P(o)]).unwrap_err();
        assert_eq!(finding.kind, FindingKind::RaceOfThreads, "{finding}");
    }
}

#[test]
fn an_unknown_instruction_is_named_with_its_line() {
    let head = ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<9>; .reg .f32 %f<3>; .reg .pred %p<3>; .reg .b64 %rd<3>;\n";
    for (body, what) in [
        ("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned"),
        ("add.s32 %r1, %r2;", "add.s32"),
        ("add.s32 %r1, %r2, %f1;\nfrobnicate %r1;", "frobnicate"),
        ("add.s64 %rd1, %rd2, %r1;", "add.s64 %rd1, %rd2, %r1"),
        ("bra NOWHERE;", "NOWHERE"),
        ("call missing;", "missing"),
        ("ld.global.u32 %r1, [%r2];", "ld.global.u32"),
        ("mov.u32 %r1, %nosuch;", "%nosuch"),
        ("cvt.f16.f32 %r1, %f1;", "cvt.f16.f32"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f1};", "mma.sync"),
        ("cp.async.cg.shared.global [%r1], [%rd1], 8;", "cp.async.cg"),
    ] {
        let error = Module::parse(&format!("{head}{body}\nret;\n}}\n")).err().unwrap_or_else(|| panic!("{body} was taken"));
        assert!(error.to_string().contains(what) && error.line >= 6, "{body}: {error}");
    }
}

/// A text with one thing changed: a byte, a piece gone, doubled, exchanged with another.
fn damaged(text: &str, random: &mut Random) -> String {
    let mut bytes = text.as_bytes().to_vec();
    if random.below(3) > 0 {
        // Mostly still a text that is taken: other registers, numbers and labels.
        for _ in 0..1 + random.below(3) {
            let at = random.below(bytes.len());
            if let Some(digit) = bytes[at..].iter().position(u8::is_ascii_digit) {
                bytes[at + digit] = b'0' + random.below(10) as u8;
            }
        }
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    for _ in 0..1 + random.below(3) {
        let at = random.below(bytes.len());
        let length = (1 + random.below(40)).min(bytes.len() - at);
        match random.below(6) {
            0 => bytes[at] = b" \n;,{}[]()%.:@!-+|_0aZ$\"/*<>="[random.below(29)],
            1 => drop(bytes.drain(at..at + length)),
            2 => {
                let piece = bytes[at..at + length].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            3 => bytes.truncate(at.max(200)),
            4 => {
                // Another number where one is.
                if let Some(digit) = bytes[at..].iter().position(u8::is_ascii_digit) {
                    let digits = ["0", "7", "31", "255", "65537", "4294967295", "99999999999999999999"][random.below(7)];
                    bytes.splice(at + digit..at + digit + 1, digits.bytes());
                }
            }
            _ => {
                // Two words change places.
                let to = random.below(bytes.len() - length);
                for k in 0..length.min(bytes.len() - at.max(to)) {
                    bytes.swap(at + k, to + k);
                }
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn damaged_texts_give_errors_or_findings_and_end() {
    let Some(calls) = compile(CALLS, &["-arch=sm_90a"]) else { return };
    let Some(atomics) = compile(ATOMICS, &["-arch=sm_90a"]) else { return };
    let Some(together) = compile(TOGETHER, &["-arch=sm_90a"]) else { return };
    let (mut random, mut refused, mut ran, mut found) = (Random(77), 0, 0, 0);
    for round in 0..3000 {
        let text = damaged([&calls, &atomics, &together][round % 3], &mut random);
        let module = match Module::parse(&text) {
            Ok(module) => module,
            Err(error) => {
                assert!(!error.what.is_empty());
                refused += 1;
                continue;
            }
        };
        let names: Vec<(String, u32)> = module.kernels().map(|k| (k.name.clone(), k.parameter_bytes())).collect();
        let memory = DeviceMemory::new(1 << 24);
        let Ok(loaded) = Loaded::new(module, &memory) else { continue };
        let buffers: Vec<u8> = (0..8)
            .flat_map(|_| {
                let buffer = memory.allocate(1 << 14).unwrap();
                memory.write(buffer, &vec![0u8; 1 << 14]).unwrap();
                buffer.to_le_bytes()
            })
            .collect();
        for (kernel, bytes) in names {
            let parameters: Vec<u8> = buffers.iter().copied().cycle().take(bytes as usize).collect();
            let launch = Launch { kernel: &kernel, grid: [1; 3], block: [32, 1, 1], dynamic_shared: 0, parameters: &parameters };
            match run(&loaded, &launch, &memory, &Conduct { seed: round as u64, threads: 1, budget: 20_000, ..Conduct::default() }) {
                Ok(_) => ran += 1,
                Err(finding) => {
                    assert!(!finding.to_string().is_empty());
                    found += 1;
                }
            }
        }
    }
    println!("{refused} texts refused; of the kernels of the others {ran} ran and {found} were stopped");
    assert!(refused > 500 && ran > 300 && found > 100);
}
