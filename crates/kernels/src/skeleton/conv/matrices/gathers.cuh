/* How a block's threads bring the factors of a convolution (`adm_copied` says what such a type is). A thread fills the same rows, or
   the same eight columns, of every slice of the depth: what it knows of them it holds, and what it knows of its place in the depth it
   carries on from slice to slice, digit by digit. The words p[AT..] are those that the skeleton names; no slice reads them. */
#define ADM_INS(AT) p[AT + 1]
#define ADM_OUTS(AT) p[AT + 2]
#define ADM_GROUPS(AT) p[AT + 3]
/* Tensors x, w, y are 0, 1, 2. */
#define ADM_OFFSET(AT, tensor) p[AT + 4 + tensor]
#define ADM_SIZE(AT, tensor, axis) p[AT + 7 + 3 * (axis) + tensor]
/* A number over the places of a tensor of AXES axes (the numbers that divide by them begin at `by`): the whole, and the place. */
template <int AXES> struct adm_cut {
    uint32_t whole, rest, place[AXES];
    adm_cut() = default;
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
    /* Goes on by another number. */
    void add(const adm_cut &by, const uint32_t (&sizes)[AXES]) {
        uint32_t carry = 0u;
#pragma unroll
        for (int a = AXES - 1; a >= 0; a--) {
            place[a] += by.place[a] + carry;
            carry = place[a] >= sizes[a] ? 1u : 0u;
            if (carry) place[a] -= sizes[a];
        }
        whole += by.whole + carry;
    }
};
template <int AXES> static inline uint32_t adm_plane(const uint32_t *sizes) {
    uint32_t plane = sizes[0];
#pragma unroll
    for (int a = 1; a < AXES; a++) plane *= sizes[3 * a];
    return plane;
}
/* The geometry of a window. */
template <int AXES, uint32_t S0, uint32_t S1, uint32_t S2, uint32_t D0, uint32_t D1, uint32_t D2, uint32_t P0, uint32_t P1, uint32_t P2> struct adm_geometry {
    static constexpr int axes = AXES;
    static constexpr uint32_t stride(int a) { return a == 0 ? S0 : a == 1 ? S1 : S2; }
    static constexpr uint32_t dilation(int a) { return a == 0 ? D0 : a == 1 ? D1 : D2; }
    static constexpr uint32_t padding(int a) { return a == 0 ? P0 : a == 1 ? P1 : P2; }
};
/* Eight columns, which are places of images; the depth is places of the kernel. BACK: of the cotangent of y, by places of x. Where the
   kernel is FEW places wide on each axis, a bit for each of them says of a column whether it is outside there; bit 31 is what nothing
   is outside of. */
template <class G, int AT, bool BACK, bool FEW, uint32_t COUNT, uint32_t APART, uint32_t STEP> struct adm_gather_columns {
    static constexpr bool COPIES = false;
    static constexpr int AXES = G::axes, NUMBERED = BACK ? 0 : 2, READ = BACK ? 2 : 0, BITS = 31 / AXES;
    const uint16_t *from;
    uint32_t base[8], outside[8], start[8][AXES], sizes[AXES], kernel[AXES], plane, k, end;
    adm_cut<AXES> at[COUNT], by;
    bool is_inside(uint32_t e, int a, uint32_t t) const {
        const uint32_t in = BACK ? start[e][a] - t : start[e][a] + t;
        return BACK ? in < 0x80000000u && in / G::stride(a) * G::stride(a) == in && in / G::stride(a) < sizes[a] : in < sizes[a];
    }
    adm_gather_columns(const uint32_t *p, const void *b, uint32_t batch, uint32_t row, uint32_t piece, uint32_t first, uint32_t bound, uint32_t begin, uint32_t last)
        : k(begin + row), end(last), by(&ADM_SIZE(AT, 1, 0), &ADM_SIZE(AT, 0, AXES), ADM_SLICE) {
        from = adm_kept_pointer((const uint16_t *)b + ADM_OFFSET(AT, READ));
        plane = adm_plane<AXES>(&ADM_SIZE(AT, READ, 0));
        const uint32_t channels = BACK ? ADM_OUTS(AT) : ADM_INS(AT);
#pragma unroll
        for (int a = 0; a < AXES; a++) sizes[a] = ADM_SIZE(AT, READ, a), kernel[a] = ADM_SIZE(AT, 1, a);
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i++) at[i] = adm_cut<AXES>(&ADM_SIZE(AT, 1, 0), &ADM_SIZE(AT, 0, AXES), k + i * APART);
#pragma unroll
        for (uint32_t e = 0; e < 8u; e++) {
            const uint32_t column = first + piece * 8u + e;
            const adm_cut<AXES> own(&ADM_SIZE(AT, NUMBERED, 0), &ADM_SIZE(AT, 0, AXES) + 2 * AXES, column);
            base[e] = (own.whole * ADM_GROUPS(AT) + batch) * channels * plane;
            uint32_t flat = 0u;
#pragma unroll
            for (int a = 0; a < AXES; a++) {
                // What lies before the beginning wraps to a large number, and where there is no column nothing is inside.
                start[e][a] = BACK ? own.place[a] + G::padding(a) : own.place[a] * G::stride(a) - G::padding(a);
                flat = flat * sizes[a] + (BACK ? start[e][a] / G::stride(a) : start[e][a]);
            }
            base[e] += flat;
            outside[e] = 0x80000000u;
            if (column >= bound) start[e][0] = 0xc0000000u, outside[e] = ~0u;
        }
        if (FEW) {
#pragma unroll
            for (int a = 0; a < AXES; a++)
#pragma unroll 1
                for (uint32_t t = 0; t < kernel[a]; t++)
#pragma unroll
                    for (uint32_t e = 0; e < 8u; e++)
                        if (!is_inside(e, a, t * G::dilation(a))) outside[e] |= 1u << (a * BITS + t);
        }
    }
    void bring(uint32_t to) {
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i++) {
            uint16_t halves[8];
            uint32_t own = 0u, bits = k + i * APART < end ? 0u : 0x80000000u;
            // Where a column is inside, what divides leaves nothing, so the quotient of the difference is that of the parts.
#pragma unroll
            for (int a = 0; a < AXES; a++) {
                const uint32_t t = at[i].place[a] * G::dilation(a);
                own = own * sizes[a] + (BACK ? t / G::stride(a) : t);
                if (FEW) bits |= 1u << (a * BITS + at[i].place[a]);
            }
            own = BACK ? at[i].whole * plane - own : at[i].whole * plane + own;
#pragma unroll
            for (uint32_t e = 0; e < 8u; e++) {
                bool is_there = (outside[e] & bits) == 0u;
                if (!FEW) {
                    is_there = bits == 0u;
#pragma unroll
                    for (int a = 0; a < AXES; a++) is_there = is_there && is_inside(e, a, at[i].place[a] * G::dilation(a));
                }
                halves[e] = adm_element(from, base[e] + own, is_there);
            }
            adm_put_halves(to + i * STEP, halves);
            at[i].add(by, kernel);
        }
        k += ADM_SLICE;
    }
};
/* Columns, which are places of the kernel; the depth is places of images. Columns beyond the last are the last once more. */
template <class G, int AT, uint32_t COUNT, uint32_t APART, uint32_t STEP> struct adm_gather_window {
    static constexpr bool COPIES = false;
    static constexpr int AXES = G::axes;
    const uint16_t *from;
    uint32_t image, start[COUNT][AXES], base[COUNT], sizes[AXES], numbered[AXES], k, end;
    adm_cut<AXES> at, by;
    adm_gather_window(const uint32_t *p, const void *b, uint32_t batch, uint32_t row, uint32_t piece, uint32_t first, uint32_t bound, uint32_t begin, uint32_t last)
        : k(begin + piece * 8u), end(last), at(&ADM_SIZE(AT, 2, 0), &ADM_SIZE(AT, 0, AXES) + 2 * AXES, begin + piece * 8u),
          by(&ADM_SIZE(AT, 2, 0), &ADM_SIZE(AT, 0, AXES) + 2 * AXES, ADM_SLICE) {
        const uint32_t plane = adm_plane<AXES>(&ADM_SIZE(AT, 0, 0));
        image = ADM_GROUPS(AT) * ADM_INS(AT) * plane;
        from = adm_kept_pointer((const uint16_t *)b + ADM_OFFSET(AT, 0));
#pragma unroll
        for (int a = 0; a < AXES; a++) sizes[a] = ADM_SIZE(AT, 0, a), numbered[a] = ADM_SIZE(AT, 2, a);
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i++) {
            const adm_cut<AXES> own(&ADM_SIZE(AT, 1, 0), &ADM_SIZE(AT, 0, AXES), ADM_MIN(first + row + i * APART, bound - 1u));
            uint32_t flat = 0u;
#pragma unroll
            for (int a = 0; a < AXES; a++) {
                start[i][a] = own.place[a] * G::dilation(a) - G::padding(a);
                flat = flat * sizes[a] + start[i][a];
            }
            base[i] = (batch * ADM_INS(AT) + own.whole) * plane + flat;
        }
    }
    void bring(uint32_t to) {
        uint16_t halves[COUNT][8];
        adm_cut<AXES> own = at;
#pragma unroll
        for (uint32_t e = 0; e < 8u; e++) {
            uint32_t flat = 0u;
#pragma unroll
            for (int a = 0; a < AXES; a++) flat = flat * sizes[a] + own.place[a] * G::stride(a);
            flat += own.whole * image;
#pragma unroll
            for (uint32_t i = 0; i < COUNT; i++) {
                bool is_inside = k + e < end;
#pragma unroll
                for (int a = 0; a < AXES; a++) is_inside = is_inside && start[i][a] + own.place[a] * G::stride(a) < sizes[a];
                halves[i][e] = adm_element(from, base[i] + flat, is_inside);
            }
            own.advance(numbered);
        }
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i++) adm_put_halves(to + i * STEP, halves[i]);
        at.add(by, numbered);
        k += ADM_SLICE;
    }
};
/* Rows whose elements lie in runs of a plane: ROLE 0, channels out of the weight; 1, channels in of it; 2, channels of y's cotangent.
   Rows beyond the last are the last once more. COPIED: runs are whole pieces of 16 bytes. */
template <class G, int AT, int ROLE, bool COPIED, uint32_t COUNT, uint32_t APART, uint32_t STEP> struct adm_gather_runs {
    static constexpr bool COPIES = COPIED;
    static constexpr int AXES = G::axes, OF = ROLE == 2 ? 2 : 1;
    const uint16_t *from;
    uint32_t step, plane, base[COUNT], whole, rest, whole_by, rest_by, k, end;
    adm_gather_runs(const uint32_t *p, const void *b, uint32_t batch, uint32_t row, uint32_t piece, uint32_t first, uint32_t bound, uint32_t begin, uint32_t last)
        : k(begin + piece * 8u), end(last) {
        const uint32_t *const by = &ADM_SIZE(AT, 0, AXES) + (OF == 1 ? 0 : 2 * AXES);
        plane = adm_plane<AXES>(&ADM_SIZE(AT, OF, 0));
        step = (ROLE == 0 ? 1u : ROLE == 1 ? ADM_INS(AT) : ADM_GROUPS(AT) * ADM_OUTS(AT)) * plane;
        from = adm_kept_pointer((const uint16_t *)b + ADM_OFFSET(AT, OF));
        whole = (uint32_t)((uint64_t)k * by[0] >> by[1]), rest = k - whole * plane;
        whole_by = (uint32_t)((uint64_t)ADM_SLICE * by[0] >> by[1]), rest_by = ADM_SLICE - whole_by * plane;
        const uint32_t channels = batch * ADM_OUTS(AT);
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i++) {
            const uint32_t own = ADM_MIN(first + row + i * APART, bound - 1u);
            base[i] = (ROLE == 0 ? (channels + own) * ADM_INS(AT) : ROLE == 1 ? channels * ADM_INS(AT) + own : channels + own) * plane;
        }
    }
    void bring(uint32_t to) {
        uint32_t at = whole * step + rest;
        if (COPIED) {
#pragma unroll
            for (uint32_t i = 0; i < COUNT; i++) adm_copy_or_clear(to + i * STEP, from + base[i] + at, k < end);
        } else {
            uint16_t halves[COUNT][8];
            uint32_t left = rest;
#pragma unroll
            for (uint32_t e = 0; e < 8u; e++) {
#pragma unroll
                for (uint32_t i = 0; i < COUNT; i++) halves[i][e] = adm_element(from, base[i] + at, k + e < end);
                left++, at++;
                if (ROLE != 0 && left == plane) left = 0u, at += step - plane;
            }
#pragma unroll
            for (uint32_t i = 0; i < COUNT; i++) adm_put_halves(to + i * STEP, halves[i]);
        }
        whole += whole_by, rest += rest_by, k += ADM_SLICE;
        if (rest >= plane) rest -= plane, whole++;
    }
};
