/* Tiles of a product by the matrix unit of a warp. What brings the pieces of a side is a type: it holds what a thread knows of its
   COUNT pieces, rows APART from one another, which lie STEP bytes apart in a stage; `bring(at)` brings those of the next slice. */
#define ADM_SLICE 32u
#define ADM_STAGES 3u
/* Where a piece of 16 bytes lies in a stage: rows of the extent ALONG the depth, or rows of the depth. */
template <bool ALONG, uint32_t EXTENT> static inline uint32_t adm_piece_at(uint32_t row, uint32_t piece) {
    return ALONG ? row * (ADM_SLICE * 2u) + (piece ^ row / 2u % 4u) * 16u : row * (EXTENT * 2u) + (piece ^ row % 8u) * 16u;
}
static inline void adm_copy_piece(uint32_t to, const uint16_t *from, uint32_t bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}
/* A whole piece, or zeros. */
static inline void adm_copy_or_clear(uint32_t to, const uint16_t *from, bool is_there) {
    asm volatile("{ .reg .pred absent; setp.eq.u32 absent, %2, 0; cp.async.cg.shared.global [%0], [%1], 16, absent; }" :: "r"(to), "l"(from), "r"((uint32_t)is_there) : "memory");
}
static inline void adm_put_piece(uint32_t to, const uint32_t (&words)[4]) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" :: "r"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]) : "memory");
}
/* A pointer that stays one: else what it is made of is added up anew for each element. */
static inline const uint16_t *adm_kept_pointer(const uint16_t *from) { asm("" : "+l"(from)); return from; }
/* An element, or zero: without a branch. */
static inline uint16_t adm_element(const uint16_t *from, uint32_t at, bool is_there) {
    uint16_t y;
    asm("{ .reg .pred there; setp.ne.u32 there, %2, 0; mov.u16 %0, 0; @there ld.global.u16 %0, [%1]; }"
        : "=h"(y) : "l"((const char *)from + (uint64_t)at * 2u), "r"((uint32_t)is_there));
    return y;
}
static inline void adm_put_halves(uint32_t to, const uint16_t (&halves)[8]) {
    uint32_t words[4];
#pragma unroll
    for (uint32_t n = 0; n < 4u; n++) asm("mov.b32 %0, {%1, %2};" : "=r"(words[n]) : "h"(halves[2u * n]), "h"(halves[2u * n + 1u]));
    adm_put_piece(to, words);
}
/* Pieces of a matrix in memory. Where they are WHOLE none reaches over an edge: the part of a piece costs addresses. Rows beyond the
   last are the last once more: nobody stores what they come to. */
template <bool ALONG, bool WHOLE, uint32_t COUNT, uint32_t APART, uint32_t STEP> struct adm_copied {
    static constexpr bool COPIES = true;
    const uint16_t *from[COUNT];
    uint64_t slice;
    /* elements of the depth from the thread's pieces on, or rows of it from its first row on; bytes of a piece across the depth */
    int left;
    uint32_t bytes;
    adm_copied(const uint16_t *matrix, uint32_t step, uint32_t row, uint32_t piece, uint32_t first, uint32_t bound, uint32_t begin, uint32_t end) {
        const uint32_t inner = first + piece * 8u;
        bytes = ALONG ? 16u : inner < bound ? ADM_MIN(bound - inner, 8u) * 2u : 0u;
        left = (int)(end - begin) - (int)(ALONG ? piece * 8u : row);
        if (bytes == 0u) left = 0;
        slice = ALONG ? ADM_SLICE : (uint64_t)ADM_SLICE * step;
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i++) {
            const uint32_t outer = ALONG ? ADM_MIN(first + row + i * APART, bound - 1u) : begin + row + i * APART;
            from[i] = matrix + (uint64_t)outer * step + (ALONG ? begin + piece * 8u : inner);
        }
    }
    void bring(uint32_t at) {
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i++) {
            const bool is_there = left > (ALONG ? 0 : (int)(i * APART));
            if (WHOLE) adm_copy_or_clear(at + i * STEP, from[i], is_there);
            else adm_copy_piece(at + i * STEP, from[i], ALONG ? (uint32_t)ADM_MAX(ADM_MIN(left * 2, 16), 0) : is_there ? bytes : 0u);
            from[i] += ALONG ? (uint64_t)ADM_SLICE : slice;
        }
        left -= (int)ADM_SLICE;
    }
};
/* Elements by themselves, as bits by what `of(at, k)` says of row or column `at`. */
template <bool ALONG, uint32_t COUNT, uint32_t APART, uint32_t STEP, class ELEMENT> struct adm_elements {
    static constexpr bool COPIES = false;
    const ELEMENT &of;
    uint32_t at, bound, k, end;
    adm_elements(const ELEMENT &element, uint32_t row, uint32_t piece, uint32_t first, uint32_t count, uint32_t begin, uint32_t last)
        : of(element), at(first + (ALONG ? row : piece * 8u)), bound(count), k(begin + (ALONG ? piece * 8u : row)), end(last) {}
    void bring(uint32_t to) {
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i++) {
            uint32_t words[4] = {0u, 0u, 0u, 0u};
#pragma unroll
            for (uint32_t e = 0; e < 8u; e++) {
                const uint32_t own = at + (ALONG ? i * APART : e), depth = k + (ALONG ? e : i * APART);
                if (own < bound && depth < end) words[e / 2u] |= of(own, depth) << (e % 2u * 16u);
            }
            adm_put_piece(to + i * STEP, words);
        }
        k += ADM_SLICE;
    }
};
/* Where a lane's rows of 8 x 8 matrices begin in a stage. The eight rows of each of four matrices come from eight lanes: the left's are
   the two halves of its rows, then of the depth; the right's the two halves of the depth, then of two units' columns. */
template <bool LEFT, bool ALONG, uint32_t EXTENT, int COUNT> struct adm_fragments {
    uint32_t at[ALONG ? 2 : COUNT];
    adm_fragments(uint32_t shared, uint32_t first) {
        const uint32_t lane = threadIdx.x % 32u, low = lane % 8u, near = lane / 8u % 2u * 8u, far = lane / 16u * 8u;
        const uint32_t of_extent = LEFT ? near : far, of_depth = LEFT ? far : near;
#pragma unroll
        for (uint32_t n = 0; n < (ALONG ? 2u : (uint32_t)COUNT); n++)
            at[n] = shared + (ALONG ? adm_piece_at<true, EXTENT>(first + low + of_extent, 2u * n + of_depth / 8u)
                                    : adm_piece_at<false, EXTENT>(low + of_depth, (first + of_extent) / 8u + 2u * n));
    }
    void take(uint32_t (&r)[4], uint32_t stage, uint32_t k, uint32_t i) const {
        const uint32_t from = stage + (ALONG ? at[k] + i * (16u * ADM_SLICE * 2u) : at[i] + k * (16u * EXTENT * 2u));
        if (ALONG) asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
        else asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
    }
};
template <bool F16> static inline void adm_multiply_unit(float (&c)[4], const uint32_t (&a)[4], uint32_t low, uint32_t high) {
    if (F16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
}
/* Adds the products of `slices` slices. Stages are known when the text is compiled where both sides are copied: addresses are then
   registers that stay and numbers. What is gathered is too long to be written three times. */
template <bool F16, int TALL, int WIDE, uint32_t ROWS, uint32_t COLUMNS, bool LEFT_ALONG, bool RIGHT_ALONG, class LEFT, class RIGHT>
static inline void adm_multiply_slices(float (&sums)[TALL][WIDE][4], LEFT &left, RIGHT &right, uint32_t left_to, uint32_t right_to,
                                       uint32_t left_shared, uint32_t right_shared, uint32_t warp_row, uint32_t warp_column, uint32_t slices) {
    constexpr uint32_t LEFT_SIZE = ROWS * ADM_SLICE * 2u, RIGHT_SIZE = COLUMNS * ADM_SLICE * 2u;
    const adm_fragments<true, LEFT_ALONG, ROWS, TALL> lefts(left_shared, warp_row);
    const adm_fragments<false, RIGHT_ALONG, COLUMNS, WIDE / 2> rights(right_shared, warp_column);
    const auto fill = [&](uint32_t stage) {
        left.bring(left_to + stage * LEFT_SIZE);
        right.bring(right_to + stage * RIGHT_SIZE);
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    const auto multiply = [&](uint32_t stage) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        fill(stage == 0u ? ADM_STAGES - 1u : stage - 1u);
#pragma unroll
        for (uint32_t k = 0; k < 2u; k++) {
            uint32_t a[TALL][4], b[WIDE / 2][4];
#pragma unroll
            for (uint32_t i = 0; i < TALL; i++) lefts.take(a[i], stage * LEFT_SIZE, k, i);
#pragma unroll
            for (uint32_t j = 0; j < WIDE / 2; j++) rights.take(b[j], stage * RIGHT_SIZE, k, j);
#pragma unroll
            for (int i = 0; i < TALL; i++)
#pragma unroll
                for (int j = 0; j < WIDE; j++) adm_multiply_unit<F16>(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
    };
    fill(0u);
    fill(1u);
    if constexpr (LEFT::COPIES && RIGHT::COPIES) {
        for (;;) {
            if (slices-- == 0u) return;
            multiply(0u);
            if (slices-- == 0u) return;
            multiply(1u);
            if (slices-- == 0u) return;
            multiply(2u);
        }
    } else {
        for (uint32_t stage = 0; slices > 0u; slices--) {
            multiply(stage);
            stage = stage == ADM_STAGES - 1u ? 0u : stage + 1u;
        }
    }
}
