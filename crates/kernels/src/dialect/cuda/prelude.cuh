#ifndef ADM_PRELUDE
#define ADM_PRELUDE
typedef unsigned char uint8_t;
typedef signed char int8_t;
typedef unsigned short uint16_t;
typedef short int16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define INFINITY __int_as_float(0x7f800000)
/* The compiler takes a signed overflow for impossible, and ours wraps: a number whose arithmetic is that of its bits. What is
   narrower is computed in int, where it does not overflow. */
template <class S, class U> struct adm_wrapping {
    S v;
    adm_wrapping() = default;
    template <class A> constexpr adm_wrapping(A x) : v((S)x) {}
    template <class T, class V> constexpr adm_wrapping(adm_wrapping<T, V> x) : v((S)x.v) {}
    template <class A> constexpr explicit operator A() const { return (A)v; }
    static constexpr adm_wrapping of(U bits) { return adm_wrapping((S)bits); }
    friend constexpr adm_wrapping operator+(adm_wrapping x, adm_wrapping y) { return of((U)x.v + (U)y.v); }
    friend constexpr adm_wrapping operator-(adm_wrapping x, adm_wrapping y) { return of((U)x.v - (U)y.v); }
    friend constexpr adm_wrapping operator*(adm_wrapping x, adm_wrapping y) { return of((U)x.v * (U)y.v); }
    friend constexpr adm_wrapping operator/(adm_wrapping x, adm_wrapping y) { return y.v == -1 ? of((U)0 - (U)x.v) : adm_wrapping((S)(x.v / y.v)); }
    friend constexpr adm_wrapping operator%(adm_wrapping x, adm_wrapping y) { return y.v == -1 ? adm_wrapping((S)0) : adm_wrapping((S)(x.v % y.v)); }
    friend constexpr adm_wrapping operator&(adm_wrapping x, adm_wrapping y) { return of((U)x.v & (U)y.v); }
    friend constexpr adm_wrapping operator|(adm_wrapping x, adm_wrapping y) { return of((U)x.v | (U)y.v); }
    friend constexpr adm_wrapping operator^(adm_wrapping x, adm_wrapping y) { return of((U)x.v ^ (U)y.v); }
    template <class N> friend constexpr adm_wrapping operator<<(adm_wrapping x, N n) { return of((U)x.v << (uint32_t)n); }
    template <class N> friend constexpr adm_wrapping operator>>(adm_wrapping x, N n) { return adm_wrapping((S)(x.v >> (uint32_t)n)); }
    friend constexpr bool operator<(adm_wrapping x, adm_wrapping y) { return x.v < y.v; }
    friend constexpr bool operator<=(adm_wrapping x, adm_wrapping y) { return x.v <= y.v; }
    friend constexpr bool operator>(adm_wrapping x, adm_wrapping y) { return x.v > y.v; }
    friend constexpr bool operator>=(adm_wrapping x, adm_wrapping y) { return x.v >= y.v; }
    friend constexpr bool operator==(adm_wrapping x, adm_wrapping y) { return x.v == y.v; }
    friend constexpr bool operator!=(adm_wrapping x, adm_wrapping y) { return x.v != y.v; }
    constexpr adm_wrapping operator-() const { return of((U)0 - (U)v); }
    constexpr adm_wrapping operator~() const { return of(~(U)v); }
    constexpr bool operator!() const { return v == 0; }
    adm_wrapping &operator+=(adm_wrapping y) { return *this = *this + y; }
    adm_wrapping &operator-=(adm_wrapping y) { return *this = *this - y; }
    adm_wrapping &operator*=(adm_wrapping y) { return *this = *this * y; }
    adm_wrapping &operator&=(adm_wrapping y) { return *this = *this & y; }
    adm_wrapping &operator|=(adm_wrapping y) { return *this = *this | y; }
    adm_wrapping &operator^=(adm_wrapping y) { return *this = *this ^ y; }
    adm_wrapping operator++(int) { adm_wrapping before = *this; *this += adm_wrapping((S)1); return before; }
    adm_wrapping operator--(int) { adm_wrapping before = *this; *this -= adm_wrapping((S)1); return before; }
};
typedef adm_wrapping<int, uint32_t> int32_t;
typedef adm_wrapping<long long, uint64_t> int64_t;
#define INT64_C(x) int64_t(x##ll)
#define INT64_MIN int64_t(-9223372036854775807ll - 1ll)
#define INT64_MAX int64_t(9223372036854775807ll)
#define INT32_MIN int32_t(-2147483647 - 1)
/* Before a long function. */
#define ADM_ALONE static __noinline__
#define ADM_SELECT(otherwise, then, condition) ((condition) ? (then) : (otherwise))
#define ADM_MIN(x, y) ((y) < (x) ? (y) : (x))
#define ADM_MAX(x, y) ((x) < (y) ? (y) : (x))
static inline uint32_t adm_bits_u32(float x) { return __float_as_uint(x); }
static inline int32_t adm_bits_i32(float x) { return int32_t(__float_as_int(x)); }
static inline uint32_t adm_bits_u32(int32_t x) { return (uint32_t)x; }
static inline uint32_t adm_bits_u32(uint32_t x) { return x; }
static inline int32_t adm_bits_i32(uint32_t x) { return int32_t(x); }
static inline float adm_bits_f32(uint32_t x) { return __uint_as_float(x); }
static inline float adm_bits_f32(int32_t x) { return __int_as_float(x.v); }
static inline int64_t adm_bits_i64(double x) { return int64_t(__double_as_longlong(x)); }
static inline int64_t adm_bits_i64(uint64_t x) { return int64_t(x); }
static inline int64_t adm_bits_i64(int64_t x) { return x; }
static inline double adm_bits_f64(int64_t x) { return __longlong_as_double(x.v); }
static inline double adm_bits_f64(uint64_t x) { return __longlong_as_double((long long)x); }
/* Toward zero, to the ends of the range where it does not fit, NaN to 0. */
static inline int64_t adm_to_i64(double x) { return x != x ? INT64_C(0) : x >= 9223372036854775807.0 ? INT64_MAX : x <= -9223372036854775808.0 ? INT64_MIN : int64_t((long long)x); }
/* Rounded to odd, so that a second rounding to at most 22 bits is exact (Boldo and Melquiond, 2008). */
static inline float adm_odd(double x) {
    float y = __double2float_rz(x);
    return x != x || (double)y == x ? y : __uint_as_float(__float_as_uint(y) | 1u);
}
/* The larger and the smaller of two, and NaN of a NaN. */
static inline double adm_max_f64(double x, double y) { return x != x || x > y ? x : y; }
static inline double adm_min_f64(double x, double y) { return x != x || x < y ? x : y; }
/* Floats of 16 bits are held in a register of 32. */
static inline uint32_t adm_bits_of_f16(float x) { uint16_t h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }
static inline float adm_f16_of_bits(uint32_t bits) { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((uint16_t)bits)); return x; }
static inline float adm_round_f16(float x) { return adm_f16_of_bits(adm_bits_of_f16(x)); }
#if __CUDA_ARCH__ >= 800
static inline uint32_t adm_bits_of_bf16(float x) { uint16_t h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }
#else
static inline uint32_t adm_bits_of_bf16(float x) {
    uint32_t b = __float_as_uint(x);
    return x != x ? 0x7fffu : (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
}
#endif
static inline float adm_round_bf16(float x) { return __uint_as_float(adm_bits_of_bf16(x) << 16); }
/* Pairs, and a launch. */
typedef struct { uint32_t x, y; } adm_vec2_u32;
typedef struct { float x, y; } adm_vec2_f32;
static inline adm_vec2_u32 adm_make_vec2_u32(uint32_t x, uint32_t y) { adm_vec2_u32 v = {x, y}; return v; }
static inline adm_vec2_f32 adm_make_vec2_f32(float x, float y) { adm_vec2_f32 v = {x, y}; return v; }
typedef struct { const uint32_t *p; void *b[128]; } adm_launch;
/* What a launch is given: where its words lie, or, where that is nowhere, the words themselves. */
typedef struct { const uint32_t *at; uint32_t held[62]; } adm_words;
/* Elements in memory, as bits. */
static inline uint32_t adm_get_1(const void *b, uint32_t at) { return ((const uint8_t *)b)[at]; }
static inline uint32_t adm_get_2(const void *b, uint32_t at) { return ((const uint16_t *)b)[at]; }
static inline uint32_t adm_get_4(const void *b, uint32_t at) { return ((const uint32_t *)b)[at]; }
static inline adm_vec2_u32 adm_get_8(const void *b, uint32_t at) { uint64_t w = ((const uint64_t *)b)[at]; return adm_make_vec2_u32((uint32_t)w, (uint32_t)(w >> 32)); }
static inline void adm_set_1(void *b, uint32_t at, uint32_t bits) { ((uint8_t *)b)[at] = (uint8_t)bits; }
static inline void adm_set_2(void *b, uint32_t at, uint32_t bits) { ((uint16_t *)b)[at] = (uint16_t)bits; }
static inline void adm_set_4(void *b, uint32_t at, uint32_t bits) { ((uint32_t *)b)[at] = bits; }
static inline void adm_set_8(void *b, uint32_t at, adm_vec2_u32 bits) { ((uint64_t *)b)[at] = (uint64_t)bits.x | (uint64_t)bits.y << 32; }
static inline uint64_t adm_pair(adm_vec2_u32 v) { return (uint64_t)v.x | (uint64_t)v.y << 32; }
static inline adm_vec2_u32 adm_unpair(uint64_t x) { return adm_make_vec2_u32((uint32_t)x, (uint32_t)(x >> 32)); }
static inline double adm_f64_of_bits(adm_vec2_u32 v) { return __longlong_as_double((long long)adm_pair(v)); }
static inline adm_vec2_u32 adm_bits_of_f64(double x) { return adm_unpair((uint64_t)__double_as_longlong(x)); }
/* 16 bytes, as one piece even where only some of them are wanted: of any other load the assembler makes several of the parts. */
static inline uint4 adm_whole_piece(const uint4 *from) {
    uint4 w;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(from) : "memory");
    return w;
}
struct adm_whole {};
/* Elements side by side, as bits: in pieces of 16 bytes, or of as many as there are. */
template <int BYTES, bool WHOLE = false> static inline void adm_words_of(const void *from, uint32_t *to) {
    if (BYTES >= 16) {
#pragma unroll
        for (int k = 0; k < BYTES / 16; k++) { uint4 w = WHOLE ? adm_whole_piece((const uint4 *)from + k) : ((const uint4 *)from)[k]; to[4 * k] = w.x; to[4 * k + 1] = w.y; to[4 * k + 2] = w.z; to[4 * k + 3] = w.w; }
    } else if (BYTES == 8) { uint2 w = *(const uint2 *)from; to[0] = w.x; to[1] = w.y; }
    else if (BYTES == 4) to[0] = *(const uint32_t *)from;
    else to[0] = BYTES == 2 ? *(const uint16_t *)from : *(const uint8_t *)from;
}
template <int BYTES> static inline void adm_set_words(void *to, const uint32_t *from) {
    if (BYTES >= 16) {
#pragma unroll
        for (int k = 0; k < BYTES / 16; k++) ((uint4 *)to)[k] = make_uint4(from[4 * k], from[4 * k + 1], from[4 * k + 2], from[4 * k + 3]);
    } else if (BYTES == 8) *(uint2 *)to = make_uint2(from[0], from[1]);
    else if (BYTES == 4) *(uint32_t *)to = from[0];
    else if (BYTES == 2) *(uint16_t *)to = (uint16_t)from[0];
    else *(uint8_t *)to = (uint8_t)from[0];
}
template <int N> static inline void adm_take_4(const void *b, uint32_t at, uint32_t (&to)[N]) { adm_words_of<4 * N>((const uint32_t *)b + at, to); }
template <int N> static inline void adm_put_4(void *b, uint32_t at, const uint32_t (&from)[N]) { adm_set_words<4 * N>((uint32_t *)b + at, from); }
template <int N, bool WHOLE = false> static inline void adm_take_8(const void *b, uint32_t at, adm_vec2_u32 (&to)[N]) {
    uint32_t words[2 * N];
    adm_words_of<8 * N, WHOLE>((const uint64_t *)b + at, words);
#pragma unroll
    for (int e = 0; e < N; e++) to[e] = adm_make_vec2_u32(words[2 * e], words[2 * e + 1]);
}
template <int N> static inline void adm_take_8(const void *b, uint32_t at, adm_vec2_u32 (&to)[N], adm_whole) { adm_take_8<N, true>(b, at, to); }
template <int N> static inline void adm_put_8(void *b, uint32_t at, const adm_vec2_u32 (&from)[N]) {
    uint32_t words[2 * N];
#pragma unroll
    for (int e = 0; e < N; e++) { words[2 * e] = from[e].x; words[2 * e + 1] = from[e].y; }
    adm_set_words<8 * N>((uint64_t *)b + at, words);
}
#define ADM_NARROW(size, of_word, type) \
    template <int N> static inline void adm_take_##size(const void *b, uint32_t at, uint32_t (&to)[N]) { \
        uint32_t words[(N + of_word - 1) / of_word]; \
        adm_words_of<size * N>((const type *)b + at, words); \
        _Pragma("unroll") for (int e = 0; e < N; e++) to[e] = (words[e / of_word] >> (e % of_word * size * 8)) & ((1u << (size * 8)) - 1u); \
    } \
    template <int N> static inline void adm_put_##size(void *b, uint32_t at, const uint32_t (&from)[N]) { \
        uint32_t words[(N + of_word - 1) / of_word] = {}; \
        _Pragma("unroll") for (int e = 0; e < N; e++) words[e / of_word] |= (from[e] & ((1u << (size * 8)) - 1u)) << (e % of_word * size * 8); \
        adm_set_words<size * N>((type *)b + at, words); \
    }
ADM_NARROW(2, 2, uint16_t)
ADM_NARROW(1, 4, uint8_t)
/* Words that several threads change. */
static inline uint32_t adm_shared_word(const void *b, uint32_t at) { uint32_t y; asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(y) : "l"((const uint32_t *)b + at) : "memory"); return y; }
static inline void adm_set_shared_word(void *b, uint32_t at, uint32_t value) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"((uint32_t *)b + at), "r"(value) : "memory"); }
static inline void adm_atomic_min(void *b, uint32_t at, uint32_t value) { atomicMin((uint32_t *)b + at, value); }
static inline void adm_atomic_and(void *b, uint32_t at, uint32_t value) { atomicAnd((uint32_t *)b + at, value); }
static inline void adm_atomic_or(void *b, uint32_t at, uint32_t value) { atomicOr((uint32_t *)b + at, value); }
static inline void adm_barrier() { __syncthreads(); }
/* What a warp makes of one value of each lane: a tree, so that no order matters. */
static inline uint32_t adm_exchange(uint32_t x, uint32_t with) { return __shfl_xor_sync(0xffffffffu, x, with); }
static inline float adm_exchange(float x, uint32_t with) { return __shfl_xor_sync(0xffffffffu, x, with); }
static inline int32_t adm_exchange(int32_t x, uint32_t with) { return int32_t(__shfl_xor_sync(0xffffffffu, x.v, with)); }
static inline double adm_exchange(double x, uint32_t with) { return __shfl_xor_sync(0xffffffffu, x, with); }
static inline int64_t adm_exchange(int64_t x, uint32_t with) { return int64_t(__shfl_xor_sync(0xffffffffu, x.v, with)); }
static inline uint32_t adm_lane_value(uint32_t x, uint32_t of) { return __shfl_sync(0xffffffffu, x, of); }
static inline float adm_lane_value(float x, uint32_t of) { return __shfl_sync(0xffffffffu, x, of); }
static inline int32_t adm_lane_value(int32_t x, uint32_t of) { return int32_t(__shfl_sync(0xffffffffu, x.v, of)); }
static inline double adm_lane_value(double x, uint32_t of) { return __shfl_sync(0xffffffffu, x, of); }
static inline int64_t adm_lane_value(int64_t x, uint32_t of) { return int64_t(__shfl_sync(0xffffffffu, x.v, of)); }
#define ADM_SUBGROUP(name, type) \
    static inline type adm_subgroup_sum_##name(type x) { for (uint32_t k = 16; k > 0; k >>= 1) x = x + adm_exchange(x, k); return x; } \
    static inline type adm_subgroup_most_##name(type x) { for (uint32_t k = 16; k > 0; k >>= 1) { type y = adm_exchange(x, k); x = ADM_MAX(x, y); } return x; } \
    static inline type adm_subgroup_of_##name(type x, uint32_t of) { return adm_lane_value(x, of); }
ADM_SUBGROUP(f32, float)
ADM_SUBGROUP(f64, double)
ADM_SUBGROUP(i32, int32_t)
ADM_SUBGROUP(u32, uint32_t)
ADM_SUBGROUP(i64, int64_t)
#endif
