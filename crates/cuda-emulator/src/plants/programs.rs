//! Kernels as users write them, each with the faults that are planted in it: a piece of its text, and what stands there instead.
use super::Caught::{self, *};
use crate::machine::FindingKind::*;

/// A kernel, and what is planted in it.
pub(crate) struct FaultyProgram {
    /// The kernel's name.
    pub name: &'static str,
    /// CUDA C++.
    pub text: &'static str,
    /// The fault, a piece of the text, what stands there instead, how it must show.
    pub plants: &'static [(&'static str, &'static str, &'static str, Caught)],
}

pub(crate) const PROGRAMS: &[FaultyProgram] = &[
    FaultyProgram {
        name: "block_sum",
        text: r#"
extern "C" __global__ void block_sum(float* o, const float* x, int n) {
    __shared__ float s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = i < n ? x[i] : 0.f;
    __syncthreads();
    for (int d = 128; d > 0; d >>= 1) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) o[blockIdx.x] = s[0];
}"#,
        plants: &[
            // Warps that run ahead read what other warps write; a warp that is alone ahead, what its own lanes do.
            ("missing barrier", "s[t + d];\n        __syncthreads();", "s[t + d];", Found(&[RaceOfThreads, RaceOfLanes])),
            ("missing first barrier", "0.f;\n    __syncthreads();", "0.f;", Found(&[RaceOfThreads])),
            ("off by one", "i < n ?", "i <= n ?", Found(&[OutOfBounds])),
            ("beyond shared memory", "s[t + d]", "s[t + 2 * d]", Found(&[OutOfBounds])),
            ("not all threads at a barrier", "        __syncthreads();\n    }", "        if (t < d) __syncthreads();\n    }", Found(&[DivergentBarrier])),
            (
                "half a warp at a barrier",
                "s[t + d];\n        __syncthreads();",
                "s[t + d];\n        if (t % 32 < 16) __syncthreads();",
                Found(&[DivergentBarrier]),
            ),
            (
                "threads that left before a barrier",
                "0.f;\n    __syncthreads();",
                "0.f;\n    if (t > 250) return;\n    __syncthreads();",
                Found(&[DivergentBarrier]),
            ),
            ("unwritten shared memory", "s[t] = i < n ? x[i] : 0.f;", "if (i < n) s[t] = x[i];", Found(&[ReadBeforeWritten])),
            ("all blocks to one place", "o[blockIdx.x] = s[0]", "o[0] += s[0]", Found(&[RaceOfBlocks])),
            ("all threads write", "if (t == 0) o[blockIdx.x] = s[0]", "o[blockIdx.x] = s[0]", Found(&[RaceOfThreads])),
        ],
    },
    FaultyProgram {
        name: "softmax",
        text: r#"
extern "C" __global__ void __launch_bounds__(256) softmax(float* o, const float* x, int n) {
    __shared__ float s[8];
    const float* r = x + (size_t)blockIdx.x * n;
    float m = __int_as_float(0xff800000), z = 0.f;
    for (int i = threadIdx.x; i < n; i += 256) m = fmaxf(m, r[i]);
    for (int d = 16; d; d >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
    if ((threadIdx.x & 31) == 0) s[threadIdx.x >> 5] = m;
    __syncthreads();
    m = s[0];
    for (int i = 1; i < 8; i++) m = fmaxf(m, s[i]);
    __syncthreads(); // before s is used again
    for (int i = threadIdx.x; i < n; i += 256) z += expf(r[i] - m);
    for (int d = 16; d; d >>= 1) z += __shfl_xor_sync(~0u, z, d);
    if ((threadIdx.x & 31) == 0) s[threadIdx.x >> 5] = z;
    __syncthreads();
    z = 0;
    for (int i = 0; i < 8; i++) z += s[i];
    for (int i = threadIdx.x; i < n; i += 256) o[(size_t)blockIdx.x * n + i] = expf(r[i] - m) / z;
}"#,
        plants: &[
            ("shared memory used again early", "__syncthreads(); // before", "// before", Found(&[RaceOfThreads])),
            ("lanes missing from a mask", "for (int d = 16; d; d >>= 1) z +=", "if (threadIdx.x & 8) for (int d = 16; d; d >>= 1) z +=", Found(&[MissingLane])),
            ("a lane that its mask does not name", "__shfl_xor_sync(~0u, z, d)", "__shfl_xor_sync(0xffffu, z, d)", Found(&[MissingLane])),
            ("rows that overlap", "o[(size_t)blockIdx.x * n + i]", "o[(size_t)blockIdx.x * (n - 1) + i]", Found(&[RaceOfBlocks])),
            ("an output left out", "i < n; i += 256) o[", "i < n - 1; i += 256) o[", WrongResult),
        ],
    },
    FaultyProgram {
        name: "warp_scan",
        text: r#"
extern "C" __global__ void warp_scan(int* o, const int* x) {
    __shared__ int s[128];
    int t = threadIdx.x, lane = t & 31;
    s[t] = x[t];
    __syncwarp();
    for (int d = 1; d < 32; d *= 2) {
        int v = lane >= d ? s[t - d] : 0;
        __syncwarp(); // read
        s[t] += v;
        __syncwarp(); // written
    }
    o[t] = s[t];
}"#,
        plants: &[
            ("missing warp sync after reading", "__syncwarp(); // read", "", Found(&[RaceOfLanes])),
            ("missing warp sync after writing", "__syncwarp(); // written", "", Found(&[RaceOfLanes])),
            ("a warp's sync where the block's is wanted", "lane >= d ?", "t >= d ?", Found(&[RaceOfThreads])),
        ],
    },
    FaultyProgram {
        name: "vectors",
        text: r#"
__constant__ float table[4] = {1.f, 2.f, 3.f, 4.f};
extern "C" __global__ void vectors(float* o, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i + 3 < n) {
        float4 v = *(const float4*)(x + 4 * i);
        float4 w = make_float4(v.x * table[0], v.y * table[1], v.z * table[2], v.w * table[3]);
        *(float4*)(o + 4 * i) = w;
    }
}"#,
        plants: &[
            ("misaligned vector", "(x + 4 * i)", "(x + 4 * i + 1)", Found(&[Misaligned])),
            ("off by one", "4 * i + 3 < n", "4 * i < n + 4", Found(&[OutOfBounds])),
            (
                "a write to constant memory",
                "*(float4*)(o + 4 * i) = w;",
                "*(float4*)(o + 4 * i) = w; float* p; asm(\"mov.u64 %0, %1;\" : \"=l\"(p) : \"l\"(&table[i & 3])); *p = 0.f;",
                Found(&[WriteToConstant]),
            ),
            ("a null pointer", "(float4*)(o + 4 * i)", "(float4*)((float*)(size_t)(n - 400) + 4 * i)", Found(&[OutOfBounds])),
            ("a trap", "if (4 * i + 3 < n) {", "if (4 * i + 3 < n) { if (i == 5) __trap();", Found(&[Trap])),
            ("an endless loop", "if (4 * i + 3 < n) {", "if (4 * i + 3 < n) { while (*(volatile const float*)x < 1e30f);", Found(&[Hung])),
        ],
    },
    FaultyProgram {
        name: "histogram",
        text: r#"
extern "C" __global__ void histogram(int* o, const int* x, int n) {
    __shared__ int s[64];
    if (threadIdx.x < 64) s[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&s[x[i] & 63], 1);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&o[threadIdx.x], s[threadIdx.x]);
}"#,
        plants: &[
            ("shared memory without atomics", "atomicAdd(&s[x[i] & 63], 1)", "s[x[i] & 63]++", Found(&[RaceOfLanes])),
            ("global memory without atomics", "atomicAdd(&o[threadIdx.x], s[threadIdx.x])", "o[threadIdx.x] += s[threadIdx.x]", Found(&[RaceOfBlocks])),
            ("counters begin as nothing", "s[threadIdx.x] = 0", "if (x[0] > 1000) s[threadIdx.x] = 0", Found(&[ReadBeforeWritten])),
        ],
    },
    FaultyProgram {
        name: "last_block",
        text: r#"
__device__ unsigned int done;
extern "C" __global__ void last_block(float* o, float* partial, const float* x, int n) {
    __shared__ bool last;
    float z = 0.f;
    for (int i = blockIdx.x * 32 + threadIdx.x; i < n; i += gridDim.x * 32) z += x[i];
    for (int d = 16; d; d >>= 1) z += __shfl_down_sync(~0u, z, d);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = z;
        __threadfence();
        last = atomicInc(&done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        z = 0.f;
        for (int k = 0; k < gridDim.x; k++) z += partial[k];
        *o = z;
    }
}"#,
        plants: &[
            ("missing fence", "__threadfence();", "", Found(&[RaceOfBlocks])),
            (
                "a counter that is none",
                "last = atomicInc(&done, gridDim.x - 1) == gridDim.x - 1;",
                "last = blockIdx.x == gridDim.x - 1;",
                Found(&[RaceOfBlocks]),
            ),
        ],
    },
    FaultyProgram {
        name: "spin_lock",
        text: r#"
__device__ int lock;
extern "C" __global__ void spin_lock(int* o) {
    for (bool going = true; going;) {
        if (atomicCAS(&lock, 0, 1) == 0) {
            *(volatile int*)o = *(volatile int*)o + 1;
            __threadfence();
            atomicExch(&lock, 0);
            going = false;
        }
    }
}"#,
        plants: &[("the lock is never given back", "atomicExch(&lock, 0);", "", Found(&[Hung]))],
    },
    FaultyProgram { name: "gemm", text: GEMM, plants: GEMM_PLANTS },
];

/// A product of bf16 matrices, rows of A and of B along k: tiles of 64 by 64 by 32, four warps, copies two stages ahead.
const GEMM: &str = r#"
typedef unsigned short u16; typedef unsigned int u32;
__device__ __forceinline__ u32 place(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void copy16(void* s, const void* g) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(place(s)), "l"(g)); }
__device__ __forceinline__ void matrices(u32 (&r)[4], const void* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(place(p)) : "memory");
}
const int STAGES = 3, ROW = 40;
extern "C" __global__ void __launch_bounds__(128) gemm(float* c, const u16* a, const u16* b, int M, int N, int K) {
    __shared__ __align__(16) u16 sa[STAGES][64 * ROW], sb[STAGES][64 * ROW];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5, m0 = blockIdx.y * 64, n0 = blockIdx.x * 64;
    float acc[8][4] = {};
    auto fetch = [&](int stage, int k) {
        for (int i = t; i < 64 * 4; i += 128) {
            int row = i / 4, column = i % 4 * 8;
            copy16(&sa[stage][row * ROW + column], a + (size_t)(m0 + row) * K + k + column);
            copy16(&sb[stage][row * ROW + column], b + (size_t)(n0 + row) * K + k + column);
        }
        asm volatile("cp.async.commit_group;");
    };
    int tiles = K / 32;
    for (int s = 0; s < STAGES - 1; s++) fetch(s, s * 32);
    for (int tile = 0; tile < tiles; tile++) {
        asm volatile("cp.async.wait_group 1;" ::: "memory"); // arrived
        __syncthreads(); // all
        int ahead = tile + STAGES - 1;
        if (ahead < tiles) fetch(ahead % STAGES, ahead * 32); else asm volatile("cp.async.commit_group;");
        const u16 *pa = sa[tile % STAGES], *pb = sb[tile % STAGES];
        for (int k = 0; k < 32; k += 16) {
            u32 A[4];
            matrices(A, pa + (warp * 16 + (lane & 15)) * ROW + k + (lane >> 4) * 8);
            for (int n = 0; n < 4; n++) {
                u32 B[4];
                matrices(B, pb + (n * 16 + (lane & 7) + (lane >> 4) * 8) * ROW + k + (lane >> 3 & 1) * 8);
                for (int h = 0; h < 2; h++) {
                    float* d = acc[2 * n + h];
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                        : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[2 * h]), "r"(B[2 * h + 1]));
                }
            }
        }
    }
    for (int n = 0; n < 8; n++)
        for (int i = 0; i < 4; i++)
            c[(size_t)(m0 + warp * 16 + lane / 4 + i / 2 * 8) * N + n0 + n * 8 + lane % 4 * 2 + i % 2] = acc[n][i];
}"#;

const GEMM_PLANTS: &[(&str, &str, &str, Caught)] = &[
    ("missing wait for copies", "asm volatile(\"cp.async.wait_group 1;\" ::: \"memory\"); // arrived", "", Found(&[CopyNotAwaited])),
    ("a wait for one group too few", "wait_group 1;", "wait_group 2;", Found(&[CopyNotAwaited])),
    ("missing barrier behind the wait", "__syncthreads(); // all", "", Found(&[CopyNotAwaited, RaceOfLanes, RaceOfThreads])),
    (
        "a stage overwritten early",
        "fetch(ahead % STAGES, ahead * 32)",
        "fetch(tile % STAGES, ahead * 32)",
        Found(&[CopyNotAwaited, RaceOfLanes, RaceOfThreads]),
    ),
    (
        "a store where a copy is under way",
        "for (int tile = 0; tile",
        "sa[0][t / 4 * ROW + t % 4 * 8] = 0;\n    for (int tile = 0; tile",
        Found(&[CopyNotAwaited]),
    ),
    ("misaligned copy", "k + column);\n            copy16(&sb", "k + column + 1);\n            copy16(&sb", Found(&[Misaligned])),
    ("misaligned rows", "ROW = 40", "ROW = 36", Found(&[Misaligned])),
    ("swapped fragments", "\"r\"(A[1]), \"r\"(A[2])", "\"r\"(A[2]), \"r\"(A[1])", WrongResult),
    ("halves of B swapped", "(lane >> 3 & 1) * 8);", "(lane >> 3 & 1 ^ 1) * 8);", WrongResult),
    ("rows of an output skipped", "i / 2 * 8) * N", "0 * 8) * N", WrongResult),
    ("copies beyond the matrix", "ahead < tiles", "ahead <= tiles", Found(&[OutOfBounds])),
];
