/* How a block's threads gather the factors of a convolution. A thread fills the same rows, or the same eight columns, of every slice
   of the depth: what it knows of them it holds. The words p[AT..] are those that the skeleton names. */
#define ADM_INS(AT) p[AT + 1]
#define ADM_OUTS(AT) p[AT + 2]
#define ADM_GROUPS(AT) p[AT + 3]
/* Tensors x, w, y are 0, 1, 2. */
#define ADM_OFFSET(AT, tensor) p[AT + 4 + tensor]
#define ADM_SIZE(AT, tensor, axis) p[AT + 7 + 3 * (axis) + tensor]
/* A number over the places of a tensor of AXES axes (the numbers that divide by them begin at `by`): the whole, and the place. */
template <int AXES> struct adm_cut {
    uint32_t whole, rest, place[AXES];
    adm_cut(const uint32_t *sizes, const uint32_t *by, uint32_t number) {
        uint32_t plane = sizes[0];
#pragma unroll
        for (int a = 1; a < AXES; a++) plane *= sizes[3 * a];
        whole = (uint32_t)((uint64_t)number * by[0] >> by[1]);
        rest = number - whole * plane;
        uint32_t left = rest;
#pragma unroll
        for (int a = AXES - 1; a > 0; a--) {
            const uint32_t next = (uint32_t)((uint64_t)left * by[2 * a] >> by[2 * a + 1]);
            place[a] = left - next * sizes[3 * a];
            left = next;
        }
        place[0] = left;
    }
    void advance(const uint32_t (&sizes)[AXES]) {
        place[AXES - 1]++;
#pragma unroll
        for (int a = AXES - 1; a > 0; a--)
            if (place[a] == sizes[a]) place[a] = 0u, place[a - 1]++;
        if (place[0] == sizes[0]) place[0] = 0u, whole++;
    }
};
template <int AXES> static inline uint32_t adm_plane(const uint32_t *sizes) {
    uint32_t plane = sizes[0];
#pragma unroll
    for (int a = 1; a < AXES; a++) plane *= sizes[3 * a];
    return plane;
}
static inline void adm_put_half(uint32_t (&words)[4], uint32_t e, uint32_t bits) { words[e / 2u] |= bits << (e % 2u * 16u); }
/* The geometry of a window. */
template <int AXES, uint32_t S0, uint32_t S1, uint32_t S2, uint32_t D0, uint32_t D1, uint32_t D2, uint32_t P0, uint32_t P1, uint32_t P2> struct adm_geometry {
    static constexpr int axes = AXES;
    static constexpr uint32_t stride(int a) { return a == 0 ? S0 : a == 1 ? S1 : S2; }
    static constexpr uint32_t dilation(int a) { return a == 0 ? D0 : a == 1 ? D1 : D2; }
    static constexpr uint32_t padding(int a) { return a == 0 ? P0 : a == 1 ? P1 : P2; }
};
/* Eight columns, which are places of images; the depth is places of the kernel. BACK: of the cotangent of y, by places of x. */
template <class G, int AT, bool BACK> struct adm_gather_columns {
    static constexpr int AXES = G::axes, NUMBERED = BACK ? 0 : 2, READ = BACK ? 2 : 0;
    const uint16_t *from;
    const uint32_t *p;
    uint32_t base[8], start[8][AXES], sizes[AXES], plane;
    adm_gather_columns(const uint32_t *words, const void *b, uint32_t batch, uint32_t first, uint32_t bound) : p(words) {
        from = (const uint16_t *)b + ADM_OFFSET(AT, READ);
        plane = adm_plane<AXES>(&ADM_SIZE(AT, READ, 0));
        const uint32_t channels = BACK ? ADM_OUTS(AT) : ADM_INS(AT);
#pragma unroll
        for (int a = 0; a < AXES; a++) sizes[a] = ADM_SIZE(AT, READ, a);
#pragma unroll
        for (uint32_t e = 0; e < 8u; e++) {
            const adm_cut<AXES> at(&ADM_SIZE(AT, NUMBERED, 0), &ADM_SIZE(AT, 0, AXES) + 2 * AXES, first + e);
            base[e] = (at.whole * ADM_GROUPS(AT) + batch) * channels * plane;
            uint32_t flat = 0u;
#pragma unroll
            for (int a = 0; a < AXES; a++) {
                // What lies before the beginning wraps to a large number, and where there is no column nothing is inside.
                start[e][a] = BACK ? at.place[a] + G::padding(a) : at.place[a] * G::stride(a) - G::padding(a);
                flat = flat * sizes[a] + start[e][a];
            }
            if (!BACK) base[e] += flat;
            if (first + e >= bound) start[e][0] = 0xc0000000u;
        }
    }
    void gather(uint32_t (&words)[4], uint32_t k, uint32_t end) const {
        if (k >= end) return;
        const adm_cut<AXES> at(&ADM_SIZE(AT, 1, 0), &ADM_SIZE(AT, 0, AXES), k);
        uint32_t own = 0u;
        if (!BACK) {
#pragma unroll
            for (int a = 0; a < AXES; a++) own = own * sizes[a] + at.place[a] * G::dilation(a);
        }
        own += at.whole * plane;
#pragma unroll
        for (uint32_t e = 0; e < 8u; e++) {
            bool is_inside = true;
            uint32_t flat = 0u;
#pragma unroll
            for (int a = 0; a < AXES; a++) {
                if (BACK) {
                    const uint32_t t = start[e][a] - at.place[a] * G::dilation(a), in = t / G::stride(a);
                    is_inside = is_inside && t < 0x80000000u && in * G::stride(a) == t && in < sizes[a];
                    flat = flat * sizes[a] + in;
                } else is_inside = is_inside && start[e][a] + at.place[a] * G::dilation(a) < sizes[a];
            }
            if (is_inside) adm_put_half(words, e, from[base[e] + own + flat]);
        }
    }
};
/* A column, which is a place of the kernel; the depth is places of images. */
template <class G, int AT> struct adm_gather_window {
    static constexpr int AXES = G::axes;
    const uint16_t *from;
    const uint32_t *p;
    uint32_t step, start[AXES], sizes[AXES], numbered[AXES];
    bool is_there;
    adm_gather_window(const uint32_t *words, const void *b, uint32_t batch, uint32_t column, uint32_t bound) : p(words), is_there(column < bound) {
        const adm_cut<AXES> at(&ADM_SIZE(AT, 1, 0), &ADM_SIZE(AT, 0, AXES), column);
        const uint32_t plane = adm_plane<AXES>(&ADM_SIZE(AT, 0, 0));
        step = ADM_GROUPS(AT) * ADM_INS(AT) * plane;
        from = (const uint16_t *)b + ADM_OFFSET(AT, 0) + (uint64_t)(batch * ADM_INS(AT) + at.whole) * plane;
#pragma unroll
        for (int a = 0; a < AXES; a++) {
            start[a] = at.place[a] * G::dilation(a) - G::padding(a);
            sizes[a] = ADM_SIZE(AT, 0, a);
            numbered[a] = ADM_SIZE(AT, 2, a);
        }
    }
    void gather(uint32_t (&words)[4], uint32_t k, uint32_t end) const {
        if (!is_there) return;
        adm_cut<AXES> at(&ADM_SIZE(AT, 2, 0), &ADM_SIZE(AT, 0, AXES) + 2 * AXES, k);
#pragma unroll
        for (uint32_t e = 0; e < 8u; e++) {
            bool is_inside = k + e < end;
            uint32_t flat = 0u;
#pragma unroll
            for (int a = 0; a < AXES; a++) {
                const uint32_t in = start[a] + at.place[a] * G::stride(a);
                is_inside = is_inside && in < sizes[a];
                flat = flat * sizes[a] + in;
            }
            if (is_inside) adm_put_half(words, e, from[at.whole * step + flat]);
            at.advance(numbered);
        }
    }
};
/* A row whose elements lie in runs of a plane: ROLE 0, a channel out of the weight; 1, a channel in of it; 2, a channel of y's
   cotangent. */
template <class G, int AT, int ROLE> struct adm_gather_runs {
    static constexpr int AXES = G::axes, OF = ROLE == 2 ? 2 : 1;
    const uint16_t *from;
    const uint32_t *p;
    uint32_t step, plane;
    bool is_there;
    adm_gather_runs(const uint32_t *words, const void *b, uint32_t batch, uint32_t row, uint32_t bound) : p(words), is_there(row < bound) {
        plane = adm_plane<AXES>(&ADM_SIZE(AT, OF, 0));
        step = (ROLE == 0 ? 1u : ROLE == 1 ? ADM_INS(AT) : ADM_GROUPS(AT) * ADM_OUTS(AT)) * plane;
        const uint64_t channels = (uint64_t)batch * ADM_OUTS(AT);
        from = (const uint16_t *)b + ADM_OFFSET(AT, OF) + (ROLE == 0 ? (channels + row) * ADM_INS(AT) : ROLE == 1 ? channels * ADM_INS(AT) + row : channels + row) * plane;
    }
    void gather(uint32_t (&words)[4], uint32_t k, uint32_t end) const {
        if (!is_there) return;
        const uint32_t *const by = &ADM_SIZE(AT, 0, AXES) + (OF == 1 ? 0 : 2 * AXES);
        uint32_t whole = (uint32_t)((uint64_t)k * by[0] >> by[1]), rest = k - whole * plane;
#pragma unroll
        for (uint32_t e = 0; e < 8u; e++) {
            if (k + e < end) adm_put_half(words, e, from[whole * step + rest]);
            rest++;
            if (rest == plane) rest = 0u, whole++;
        }
    }
};
