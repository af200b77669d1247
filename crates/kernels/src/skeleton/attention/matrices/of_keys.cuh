/* Cotangents of keys, of values, or of both: the rows kept are keys, of one head; the queries of all heads that share it are walked. */
template <bool F16, int TALL, int N, int FEATURES, int VALUES, bool HELD, int OF_KEYS, int OF_VALUES, bool CAUSAL, int MASK, bool DROPS, class MaskOf>
static inline void adm_attention_of_keys(const adm_attention &of, const adm_matrices<const uint16_t> &q, const adm_matrices<const uint16_t> &k, const adm_matrices<const uint16_t> &v, const adm_matrices<const uint16_t> &g,
                                         const float *lse, const float *deltas, const adm_matrices<uint16_t> &out, const adm_matrices<uint16_t> &out_values, uint32_t shared,
                                         uint32_t first, uint32_t chunk, uint32_t plane, uint32_t ratio, const MaskOf &mask_of) {
    constexpr uint32_t SECOND = N * (FEATURES * 2u + 1u) * 16u, NUMBERS = N * (FEATURES + VALUES + 1u) * 32u, STAGE = NUMBERS + N * 8u;
    const uint32_t near = first + threadIdx.x / 32u * 16u * TALL;
    const adm_near<TALL, FEATURES, true> kept(k, plane, near, of.keys, of.features, of.flip);
    const adm_near<TALL, VALUES, HELD && OF_KEYS != 0> values(v, plane, near, of.keys, of.values, 0u);
    float y[TALL][OF_KEYS ? 2 * OF_KEYS : 1][4], z[TALL][OF_VALUES ? 2 * OF_VALUES : 1][4];
    adm_clear(y);
    adm_clear(z);
    // Of each head's tiles the first `hidden` and the last one, where it is not full, may hide something: these are walked first.
    const uint32_t begin = CAUSAL ? ADM_MIN(first, of.queries) / N * N : 0u, tiles = (of.queries - begin + N - 1u) / N;
    const uint32_t hidden = MASK ? tiles : CAUSAL ? ADM_MIN(tiles, 64u * TALL / N) : 0u;
    const uint32_t edges = hidden + (hidden < tiles && of.queries % N != 0u ? 1u : 0u), whole = tiles - edges, count = ratio * tiles;
    // Heads that share keys lie in one group.
    const uint16_t *const queries = q.of(plane * ratio), *const cotangents = g.of(plane * ratio);
    struct far_place { uint32_t head, row; };
    const auto place = [&](uint32_t n) -> far_place {
        if (n >= ratio * edges) return {(n - ratio * edges) / whole, begin + (hidden + (n - ratio * edges) % whole) * N};
        const uint32_t edge = n % edges;
        return {n / edges, begin + (edge < hidden ? edge : tiles - 1u) * N};
    };
    const auto fill = [&](uint32_t n) {
        const far_place at = place(n);
        const uint32_t to = shared + n % 2u * STAGE;
        const uint64_t line = (uint64_t)(plane * ratio + at.head) * of.queries;
        adm_copy_rows<N, FEATURES>(to, queries + (uint64_t)at.head * q.matrix, q.row, at.row, of.queries, of.features);
        adm_copy_rows<N, VALUES>(to + SECOND, cotangents + (uint64_t)at.head * g.matrix, g.row, at.row, of.queries, of.values);
        adm_copy_numbers<N>(to + NUMBERS, lse + line, at.row, of.queries);
        if (OF_KEYS) adm_copy_numbers<N>(to + NUMBERS + N * 4u, deltas + line, at.row, of.queries);
    };
    const auto walk = [&](uint32_t n, auto is_whole) {
        constexpr bool WHOLE = decltype(is_whole)::value;
        adm_landed();
        if (n + 1u < count) fill(n + 1u);
        const far_place at = place(n);
        const uint32_t far = at.row, far_plane = plane * ratio + at.head, tile = shared + n % 2u * STAGE;
        if (near >= of.keys || (CAUSAL && !WHOLE && far + N <= near)) return;
        float s[TALL][N / 8][4], d[TALL][OF_KEYS ? N / 8 : 1][4];
        adm_dots<F16, TALL, N>(s, kept, tile);
        adm_hide<F16, TALL, N, true, CAUSAL, MASK, WHOLE>(of, s, near, far, MASK ? mask_of(far_plane) : 0u);
        if constexpr (OF_KEYS > 0) adm_dots<F16, TALL, N>(d, values, tile + SECOND);
#pragma unroll
        for (int c = 0; c < N / 4; c++) {
            const uint32_t number = tile + NUMBERS + adm_column(c / 2, c % 2) * 4u;
            const float base = adm_base_of_log<MASK>(adm_number(number)), delta = OF_KEYS ? adm_number(number + N * 4u) : 0.0f;
#pragma unroll
            for (int r = 0; r < 2 * TALL; r++) {
                const int t = r / 2, j = c / 2, e = r % 2 * 2 + c % 2;
                const float keep = DROPS ? adm_keep(of, far_plane, far + adm_column(j, e), near + adm_row(t, e)) : 1.0f;
                const float weight = adm_weight<MASK>(of, s[t][j][e], base);
                if constexpr (OF_KEYS > 0) d[t][j][e] = weight * ((DROPS ? d[t][j][e] * keep : d[t][j][e]) - delta);
                s[t][j][e] = DROPS ? weight * keep : weight;
            }
        }
        if constexpr (OF_VALUES > 0) adm_weigh<F16, TALL, N, VALUES, OF_VALUES>(z, s, tile + SECOND, chunk);
        if constexpr (OF_KEYS > 0) adm_weigh<F16, TALL, N, FEATURES, OF_KEYS>(y, d, tile, chunk);
    };
    if (count > 0u) fill(0u);
    uint32_t n = 0;
    for (; n < ratio * edges; n++) walk(n, adm_known<false>());
    for (; n < count; n++) walk(n, adm_known<true>());
    float factor[TALL][2];
    if constexpr (OF_KEYS > 0) {
#pragma unroll
        for (int r = 0; r < 2 * TALL; r++) factor[r / 2][r % 2] = of.scale;
        adm_store_rows<F16, TALL, OF_KEYS>(out, plane, y, factor, near, of.keys, of.features, chunk);
    }
    if constexpr (OF_VALUES > 0) {
#pragma unroll
        for (int r = 0; r < 2 * TALL; r++) factor[r / 2][r % 2] = 1.0f;
        adm_store_rows<F16, TALL, OF_VALUES>(out_values, plane, z, factor, near, of.keys, of.values, chunk);
    }
}
