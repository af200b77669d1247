/* Cotangents of queries: the rows kept are queries. All keys are walked twice: for the row sums of weights times their cotangents,
   which must cancel against those where one key has all the weight, so the rounded output does not do for them; then for the rows
   themselves. */
template <bool F16, int TALL, int N, int FEATURES, int VALUES, bool HELD, int OUT, bool CAUSAL, int MASK, bool DROPS, bool WITH_LSE, class MaskOf>
static inline void adm_attention_of_queries(const adm_attention &of, const adm_matrices<const uint16_t> &q, const adm_matrices<const uint16_t> &k, const adm_matrices<const uint16_t> &v, const adm_matrices<const uint16_t> &g,
                                            const float *lse, const float *of_lse, float *deltas, const adm_matrices<uint16_t> &out, uint32_t shared, uint32_t first,
                                            uint32_t chunk, uint32_t plane, uint32_t ratio, const MaskOf &mask_of) {
    constexpr uint32_t STAGE = N * (FEATURES + VALUES + 1u) * 32u, SECOND = N * (FEATURES * 2u + 1u) * 16u;
    const uint32_t far_plane = plane / ratio, near = first + threadIdx.x / 32u * 16u * TALL;
    const uint16_t *const keys = k.of(far_plane), *const values = v.of(far_plane);
    const uint32_t mask_at = MASK ? mask_of(plane) : 0u;
    const adm_near<TALL, FEATURES, true> kept(q, plane, near, of.queries, of.features, of.flip);
    const adm_near<TALL, VALUES, HELD> cotangents(g, plane, near, of.queries, of.values, 0u);
    float y[TALL][2 * OUT][4], base[TALL][2], delta[TALL][2];
    adm_clear(y);
#pragma unroll
    for (int r = 0; r < 2 * TALL; r++) {
        const uint32_t row = near + adm_row(r / 2, r % 2 * 2);
        base[r / 2][r % 2] = adm_base_of_log<MASK>(row < of.queries ? lse[plane * of.queries + row] : 0.0f);
        delta[r / 2][r % 2] = 0.0f;
    }
    // Tiles before `whole` hide nothing. The second walk goes back.
    const uint32_t end = CAUSAL ? ADM_MIN(of.keys, first + 64u * TALL) : of.keys, count = (end + N - 1u) / N;
    const uint32_t whole = MASK ? 0u : (CAUSAL ? ADM_MIN(of.keys, first) : of.keys) / N;
    const auto place = [&](uint32_t n) { return (n < count ? n : 2u * count - 1u - n) * N; };
    const auto fill = [&](uint32_t n) {
        const uint32_t to = shared + n % 2u * STAGE, far = place(n);
        adm_copy_rows<N, FEATURES>(to, keys, k.row, far, of.keys, of.features);
        adm_copy_rows<N, VALUES>(to + SECOND, values, v.row, far, of.keys, of.values);
    };
    const auto told = [&] {
#pragma unroll
        for (int r = 0; r < 2 * TALL; r++) {
            const uint32_t row = near + adm_row(r / 2, r % 2 * 2), at = plane * of.queries + row;
            float &own = delta[r / 2][r % 2];
            own = adm_row_sum(own);
            if (row < of.queries) {
                if (WITH_LSE) own -= of_lse[at];
                if (chunk == 0u && adm_lane() % 4u == 0u) deltas[at] = own;
            }
        }
    };
    const auto walk = [&](uint32_t n, bool is_first, auto is_whole) {
        constexpr bool WHOLE = decltype(is_whole)::value;
        adm_landed();
        if (n + 1u < 2u * count) fill(n + 1u);
        const uint32_t far = place(n), tile = shared + n % 2u * STAGE;
        if (near >= of.queries || (CAUSAL && !WHOLE && far >= near + 16u * TALL)) return;
        float s[TALL][N / 8][4], d[TALL][N / 8][4];
        adm_dots<F16, TALL, N>(s, kept, tile);
        adm_dots<F16, TALL, N>(d, cotangents, tile + SECOND);
        adm_hide<F16, TALL, N, false, CAUSAL, MASK, WHOLE>(of, s, near, far, mask_at);
#pragma unroll
        for (int i = 0; i < TALL * N / 2; i++) {
            const int t = i / (N / 2), j = i / 4 % (N / 8), e = i % 4;
            s[t][j][e] = adm_weight<MASK>(of, s[t][j][e], base[t][e / 2]);
            if (DROPS) d[t][j][e] *= adm_keep(of, plane, near + adm_row(t, e), far + adm_column(j, e));
        }
        if (is_first) {
#pragma unroll
            for (int i = 0; i < TALL * N / 2; i++) {
                const int t = i / (N / 2), j = i / 4 % (N / 8), e = i % 4;
                delta[t][e / 2] = __fmaf_rn(s[t][j][e], d[t][j][e], delta[t][e / 2]);
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < TALL * N / 2; i++) {
            const int t = i / (N / 2), j = i / 4 % (N / 8), e = i % 4;
            s[t][j][e] *= d[t][j][e] - delta[t][e / 2];
        }
        adm_weigh<F16, TALL, N, FEATURES, OUT>(y, s, tile, chunk);
    };
    if (count > 0u) fill(0u);
    uint32_t n = 0;
    for (; n < whole; n++) walk(n, true, adm_known<true>());
    for (; n < count; n++) walk(n, true, adm_known<false>());
    told();
    for (; n < 2u * count - whole; n++) walk(n, false, adm_known<false>());
    for (; n < 2u * count; n++) walk(n, false, adm_known<true>());
    float factor[TALL][2];
#pragma unroll
    for (int r = 0; r < 2 * TALL; r++) factor[r / 2][r % 2] = of.scale;
    adm_store_rows<F16, TALL, OUT>(out, plane, y, factor, near, of.queries, of.features, chunk);
}
