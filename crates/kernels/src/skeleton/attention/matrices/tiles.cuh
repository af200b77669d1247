/* Attention by the matrix unit of a warp: what its kernels are made of. Four warps keep 16 * TALL rows each of one side (near) and
   walk the other's (far) in tiles of N rows, which are on their way to shared memory while those before them are multiplied. Rows
   lie an odd number of pieces of 16 bytes apart there, so that eight rows of one piece lie in eight different banks. UNITS count
   16 features each. Of a tile of scores, element e of unit (t, j) is that of near row `adm_row(t, e)` and far row
   `adm_column(j, e)`. */
#define ADM_LANES 128u
struct adm_attention {
    uint32_t queries, keys, features, values;
    /* the factor of the scores, its magnitude, that times log2 e, and the sign that near rows take over */
    float scale, size, unit;
    uint32_t flip;
    /* the probability that a weight is dropped, the factor of those that are not, and the key of the draws */
    float dropout, kept;
    uint32_t draws[4];
    const void *mask;
    uint32_t mask_rows, mask_columns;
};
/* Matrices and where their rows lie: steps from row to row, from matrix to matrix, and from group to group of so many matrices. */
template <class ELEMENT> struct adm_matrices {
    ELEMENT *from;
    uint32_t row, matrix, group, each;
    ELEMENT *of(uint32_t number) const { return from + (uint64_t)(number / each) * group + (uint64_t)(number % each) * matrix; }
};
/* What is known of a tile when the text is compiled. */
template <bool VALUE> struct adm_known { static constexpr bool value = VALUE; };
static inline uint32_t adm_lane() { return threadIdx.x % 32u; }
static inline uint32_t adm_row(uint32_t t, uint32_t e) { return 16u * t + adm_lane() / 4u + e / 2u * 8u; }
static inline uint32_t adm_column(uint32_t j, uint32_t e) { return 8u * j + adm_lane() % 4u * 2u + e % 2u; }
static inline float adm_reciprocal(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
static inline float adm_exp2(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
template <bool F16> static inline uint32_t adm_pack(float low, float high) {
    uint32_t y;
    if (F16) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}
template <bool F16> static inline void adm_multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t low, uint32_t high) {
    if (F16)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
}
template <int TALL, int WIDE> static inline void adm_clear(float (&c)[TALL][WIDE][4]) {
#pragma unroll
    for (int n = 0; n < TALL * WIDE * 4; n++) c[n / (WIDE * 4)][n / 4 % WIDE][n % 4] = 0.0f;
}
/* Near rows from `first` on, as the unit's left factor, zero where there are none: HELD in registers, or read anew for each tile. */
template <int TALL, int UNITS, bool HELD> struct adm_near {
    const uint16_t *from;
    uint32_t step, first, rows, columns, flip;
    uint32_t held[HELD ? TALL : 1][HELD ? UNITS : 1][4];
    uint32_t word(uint32_t t, uint32_t k, uint32_t q) const {
        const uint32_t row = first + adm_row(t, q % 2u * 2u), column = 16u * k + adm_lane() % 4u * 2u + q / 2u * 8u;
        return row < rows && column < columns ? *(const uint32_t *)(from + (uint64_t)row * step + column) ^ flip : 0u;
    }
    adm_near(const adm_matrices<const uint16_t> &all, uint32_t matrix, uint32_t first_row, uint32_t count, uint32_t width, uint32_t sign)
        : from(all.of(matrix)), step(all.row), first(first_row), rows(count), columns(width), flip(sign) {
        if (!HELD) return;
#pragma unroll
        for (uint32_t n = 0; n < TALL * UNITS * 4u; n++) held[n / (UNITS * 4u)][n / 4u % UNITS][n % 4u] = word(n / (UNITS * 4u), n / 4u % UNITS, n % 4u);
    }
    void take(uint32_t (&a)[4], uint32_t t, uint32_t k) const {
#pragma unroll
        for (uint32_t q = 0; q < 4u; q++) a[q] = HELD ? held[HELD ? t : 0][HELD ? k : 0][q] : word(t, k, q);
    }
};
/* Copies far rows, so many elements apart, from `first` on to shared memory; zero where there are none. Each lane stays at its piece
   of a row; where a row's do not share the lanes evenly, the last have none. */
template <int N, int UNITS> static inline void adm_copy_rows(uint32_t to, const uint16_t *from, uint32_t step, uint32_t first, uint32_t rows, uint32_t columns) {
    constexpr uint32_t PIECES = UNITS * 2u, TOGETHER = ADM_LANES / PIECES, PITCH = (PIECES + 1u) * 16u;
    const uint32_t row = threadIdx.x / PIECES, piece = threadIdx.x % PIECES;
    if (ADM_LANES % PIECES != 0u && row >= TOGETHER) return;
    const uint16_t *const own = from + (uint64_t)(first + row) * step + piece * 8u;
#pragma unroll
    for (uint32_t n = 0; n < N; n += TOGETHER) {
        if (n + TOGETHER > N && row + n >= N) break;
        const uint32_t bytes = first + row + n < rows && piece * 8u < columns ? 16u : 0u;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to + (row + n) * PITCH + piece * 16u), "l"(own + (uint64_t)n * step), "r"(bytes) : "memory");
    }
}
/* Copies a number of each far row. */
template <int N> static inline void adm_copy_numbers(uint32_t to, const float *from, uint32_t first, uint32_t rows) {
    if (threadIdx.x < N) {
        const bool is_there = first + threadIdx.x < rows;
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(to + threadIdx.x * 4u), "l"(from + (is_there ? first + threadIdx.x : 0u)), "r"(is_there ? 4u : 0u) : "memory");
    }
}
static inline float adm_number(uint32_t at) { float y; asm volatile("ld.shared.f32 %0, [%1];" : "=f"(y) : "r"(at) : "memory"); return y; }
/* What has been asked for is there, and nobody reads what was there before. */
static inline void adm_landed() {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
}
/* Near rows times far rows. */
template <bool F16, int TALL, int N, int UNITS, bool HELD>
static inline void adm_dots(float (&c)[TALL][N / 8][4], const adm_near<TALL, UNITS, HELD> &near, uint32_t tile) {
    adm_clear(c);
    const uint32_t from = tile + ((adm_lane() % 8u + adm_lane() / 16u * 8u) * (UNITS * 2u + 1u) + adm_lane() / 8u % 2u) * 16u;
#pragma unroll
    for (int k = 0; k < UNITS; k++) {
        uint32_t a[TALL][4];
#pragma unroll
        for (int t = 0; t < TALL; t++) near.take(a[t], t, k);
#pragma unroll
        for (int j = 0; j < N / 16; j++) {
            uint32_t b[4];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(from + (j * 16u * (UNITS * 2u + 1u) + 2u * k) * 16u) : "memory");
#pragma unroll
            for (int t = 0; t < TALL; t++) {
                adm_multiply<F16>(c[t][2 * j], a[t], b[0], b[1]);
                adm_multiply<F16>(c[t][2 * j + 1], a[t], b[2], b[3]);
            }
        }
    }
}
/* Adds weights times far rows; UNITS of a far row, of which OUT from `chunk` on. */
template <bool F16, int TALL, int N, int UNITS, int OUT>
static inline void adm_weigh(float (&y)[TALL][2 * OUT][4], const float (&w)[TALL][N / 8][4], uint32_t tile, uint32_t chunk) {
    const uint32_t from = tile + ((adm_lane() % 16u) * (UNITS * 2u + 1u) + chunk * 2u * OUT + adm_lane() / 16u) * 16u;
#pragma unroll
    for (int k = 0; k < N / 16; k++) {
        uint32_t a[TALL][4];
#pragma unroll
        for (int q = 0; q < 4 * TALL; q++) a[q / 4][q % 4] = adm_pack<F16>(w[q / 4][2 * k + q % 4 / 2][q % 2 * 2], w[q / 4][2 * k + q % 4 / 2][q % 2 * 2 + 1]);
#pragma unroll
        for (int j = 0; j < OUT; j++) {
            uint32_t b[4];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(from + (k * 16u * (UNITS * 2u + 1u) + 2u * j) * 16u) : "memory");
#pragma unroll
            for (int t = 0; t < TALL; t++) {
                adm_multiply<F16>(y[t][2 * j], a[t], b[0], b[1]);
                adm_multiply<F16>(y[t][2 * j + 1], a[t], b[2], b[3]);
            }
        }
    }
}
/* The factor of a weight where some are dropped. */
static inline float adm_keep(const adm_attention &of, uint32_t plane, uint32_t query, uint32_t key) {
    const uint64_t n = (uint64_t)(plane * of.queries + query) * of.keys + key;
    const uint32_t bits = adm_random_bits(of.draws[0], of.draws[1], of.draws[2], of.draws[3], (uint32_t)n, (uint32_t)(n >> 32));
    return (float)(bits >> 8) * 5.9604644775390625e-8f < of.dropout ? 0.0f : of.kept;
}
/* A mask that is added: 1 is bool, 2 f32, 3 of the factors' dtype. With one that is added scores are scaled, else they are dots. */
#define ADM_ADDED(mask) ((mask) > 1)
/* Hides what is outside, what comes after its query, and what the mask hides, or adds the mask. A tile of which nothing can be hidden
   is WHOLE. */
template <bool F16, int TALL, int N, bool BY_KEYS, bool CAUSAL, int MASK, bool WHOLE>
static inline void adm_hide(const adm_attention &of, float (&s)[TALL][N / 8][4], uint32_t near, uint32_t far, uint32_t mask_at) {
    if (WHOLE && !MASK) return;
#pragma unroll
    for (int n = 0; n < TALL * N / 2; n++) {
        float &score = s[n / (N / 2)][n / 4 % (N / 8)][n % 4];
        const uint32_t row = near + adm_row(n / (N / 2), n % 4), column = far + adm_column(n / 4 % (N / 8), n % 4);
        const uint32_t query = BY_KEYS ? column : row, key = BY_KEYS ? row : column;
        const bool is_seen = query < of.queries && key < of.keys && (!CAUSAL || key <= query);
        // What is not seen has no element: the mask's first is read instead, without a branch.
        const uint32_t at = mask_at + (is_seen ? query * of.mask_rows + key * of.mask_columns : 0u);
        if (MASK == 1) {
            const bool is_kept = ((const uint8_t *)of.mask)[at];
            if (!(is_seen && is_kept)) score = -INFINITY;
        } else if (ADM_ADDED(MASK)) {
            const float added = MASK == 2 ? ((const float *)of.mask)[at] : F16 ? adm_f16_of_bits(((const uint16_t *)of.mask)[at]) : adm_bits_f32((uint32_t)((const uint16_t *)of.mask)[at] << 16);
            score = __fmaf_rn(score, of.size, is_seen ? added : -INFINITY);
        } else if (!is_seen) score = -INFINITY;
    }
}
/* What is subtracted from a row's scores, given in their own measure and as a logarithm; infinity of a row that is hidden. */
template <int MASK> static inline float adm_base(const adm_attention &of, float most) { return ADM_ADDED(MASK) ? most : most * of.unit; }
template <int MASK> static inline float adm_base_of_log(float lse) {
    const float base = lse == -INFINITY ? INFINITY : lse;
    return ADM_ADDED(MASK) ? base : base * 1.44269504088896341f;
}
template <int MASK> static inline float adm_weight(const adm_attention &of, float score, float base) {
    return ADM_ADDED(MASK) ? adm_exp2((score - base) * 1.44269504088896341f) : adm_exp2(__fmaf_rn(score, of.unit, -base));
}
/* Of the four lanes that hold a row. */
static inline float adm_row_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1u);
    return x + __shfl_xor_sync(0xffffffffu, x, 2u);
}
static inline float adm_row_most(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1u));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2u));
}
/* Stores sums times factors of their rows; OUT units of each row, from `chunk` on. */
template <bool F16, int TALL, int OUT>
static inline void adm_store_rows(const adm_matrices<uint16_t> &to, uint32_t matrix, const float (&y)[TALL][2 * OUT][4], const float (&factor)[TALL][2], uint32_t first, uint32_t rows, uint32_t columns, uint32_t chunk) {
    uint16_t *const from = to.of(matrix);
#pragma unroll
    for (int n = 0; n < TALL * OUT * 4; n++) {
        const int t = n / (4 * OUT), j = n / 2 % (2 * OUT), h = n % 2;
        const uint32_t row = first + adm_row(t, 2 * h), column = chunk * 16u * OUT + adm_column(j, 0);
        if (row < rows && column < columns)
            *(uint32_t *)(from + (uint64_t)row * to.row + column) = adm_pack<F16>(y[t][j][2 * h] * factor[t][h], y[t][j][2 * h + 1] * factor[t][h]);
    }
}
