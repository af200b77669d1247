/* The rows kept are queries. Each warp follows the largest score of its rows and what the others add up to, and scales what it has
   gathered down where a larger one comes (Dao et al., "FlashAttention", 2022). `mask_of(plane)` is where a plane's mask begins. */
template <bool F16, int TALL, int N, int FEATURES, int VALUES, int OUT, bool CAUSAL, int MASK, bool DROPS, class MaskOf>
static inline void adm_attention_forward(const adm_attention &of, const adm_matrices<const uint16_t> &q, const adm_matrices<const uint16_t> &k, const adm_matrices<const uint16_t> &v,
                                         const adm_matrices<uint16_t> &out, float *lse,
                                         uint32_t shared, uint32_t first, uint32_t chunk, uint32_t plane, uint32_t ratio, const MaskOf &mask_of) {
    constexpr uint32_t STAGE = N * (FEATURES + VALUES + 1u) * 32u, SECOND = N * (FEATURES * 2u + 1u) * 16u;
    const uint32_t far_plane = plane / ratio, near = first + threadIdx.x / 32u * 16u * TALL;
    const uint16_t *const keys = k.of(far_plane), *const values = v.of(far_plane);
    const uint32_t mask_at = MASK ? mask_of(plane) : 0u;
    const adm_near<TALL, FEATURES, true> kept(q, plane, near, of.queries, of.features, of.flip);
    float y[TALL][2 * OUT][4], most[TALL][2], sum[TALL][2];
    adm_clear(y);
#pragma unroll
    for (int r = 0; r < 2 * TALL; r++) most[r / 2][r % 2] = -INFINITY, sum[r / 2][r % 2] = 0.0f;
    // Tiles before `whole` hide nothing.
    const uint32_t end = CAUSAL ? ADM_MIN(of.keys, first + 64u * TALL) : of.keys, count = (end + N - 1u) / N;
    const uint32_t whole = MASK ? 0u : (CAUSAL ? ADM_MIN(of.keys, first) : of.keys) / N;
    const auto fill = [&](uint32_t n) {
        const uint32_t to = shared + n % 2u * STAGE;
        adm_copy_rows<N, FEATURES>(to, keys, k.row, n * N, of.keys, of.features);
        adm_copy_rows<N, VALUES>(to + SECOND, values, v.row, n * N, of.keys, of.values);
    };
    const auto walk = [&](uint32_t n, auto is_whole) {
        constexpr bool WHOLE = decltype(is_whole)::value;
        adm_landed();
        if (n + 1u < count) fill(n + 1u);
        const uint32_t far = n * N, tile = shared + n % 2u * STAGE;
        // Rows that there are not, and tiles that come after all of them.
        if (near >= of.queries || (CAUSAL && !WHOLE && far >= near + 16u * TALL)) return;
        float s[TALL][N / 8][4], shrink[TALL][2];
        adm_dots<F16, TALL, N>(s, kept, tile);
        adm_hide<F16, TALL, N, false, CAUSAL, MASK, WHOLE>(of, s, near, far, mask_at);
        bool shrinks = false;
#pragma unroll
        for (int r = 0; r < 2 * TALL; r++) {
            const int t = r / 2, h = r % 2;
            float top = most[t][h];
#pragma unroll
            for (int c = 0; c < N / 4; c++) top = fmaxf(top, s[t][c / 2][2 * h + c % 2]);
            top = adm_row_most(top);
            // A row that is hidden so far has no largest score to subtract.
            const float base = top == -INFINITY ? 0.0f : adm_base<MASK>(of, top);
            shrink[t][h] = adm_weight<MASK>(of, most[t][h], base);
            shrinks |= shrink[t][h] != 1.0f;
            most[t][h] = top;
            float part = 0.0f;
#pragma unroll
            for (int c = 0; c < N / 4; c++) {
                float &score = s[t][c / 2][2 * h + c % 2];
                score = adm_weight<MASK>(of, score, base);
                part += score;
                if (DROPS) score *= adm_keep(of, plane, near + adm_row(t, 2 * h), far + adm_column(c / 2, c % 2));
            }
            sum[t][h] = __fmaf_rn(sum[t][h], shrink[t][h], part);
        }
        if (__any_sync(0xffffffffu, shrinks)) {
#pragma unroll
            for (int i = 0; i < TALL * OUT * 8; i++) y[i / (8 * OUT)][i / 4 % (2 * OUT)][i % 4] *= shrink[i / (8 * OUT)][i / 2 % 2];
        }
        adm_weigh<F16, TALL, N, VALUES, OUT>(y, s, tile + SECOND, chunk);
    };
    if (count > 0u) fill(0u);
    uint32_t n = 0;
    for (; n < whole; n++) walk(n, adm_known<true>());
    for (; n < count; n++) walk(n, adm_known<false>());
#pragma unroll
    for (int r = 0; r < 2 * TALL; r++) {
        const int t = r / 2, h = r % 2;
        const float total = adm_row_sum(sum[t][h]), top = most[t][h];
        const uint32_t row = near + adm_row(t, 2 * h);
        const float least = top == -INFINITY ? 0.0f : ADM_ADDED(MASK) ? top : top * of.size;
        if (chunk == 0u && adm_lane() % 4u == 0u && row < of.queries) lse[plane * of.queries + row] = least + adm_log(total);
        sum[t][h] = adm_reciprocal(total == 0.0f ? 1.0f : total);
    }
    adm_store_rows<F16, TALL, OUT>(out, plane, y, sum, near, of.queries, of.values, chunk);
}
