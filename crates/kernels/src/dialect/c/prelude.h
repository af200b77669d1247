#ifndef ADM_PRELUDE
#define ADM_PRELUDE
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h>
/* Before a long function. */
#define ADM_ALONE static inline
#define ADM_SELECT(otherwise, then, condition) ((condition) ? (then) : (otherwise))
#define ADM_MIN(x, y) ((y) < (x) ? (y) : (x))
#define ADM_MAX(x, y) ((x) < (y) ? (y) : (x))
static inline uint32_t adm_bits_u32(float x) { uint32_t y; memcpy(&y, &x, 4); return y; }
static inline int32_t adm_bits_i32(float x) { int32_t y; memcpy(&y, &x, 4); return y; }
static inline float adm_bits_f32(uint32_t x) { float y; memcpy(&y, &x, 4); return y; }
static inline int64_t adm_bits_i64(double x) { int64_t y; memcpy(&y, &x, 8); return y; }
static inline double adm_bits_f64(int64_t x) { double y; memcpy(&y, &x, 8); return y; }
/* Toward zero, to the ends of the range where it does not fit, NaN to 0. */
static inline int64_t adm_to_i64(double x) { return x != x ? 0 : x >= 9223372036854775807.0 ? INT64_MAX : x <= -9223372036854775808.0 ? INT64_MIN : (int64_t)x; }
/* Rounded to odd, so that a second rounding to at most 22 bits is exact (Boldo and Melquiond, 2008). */
static inline float adm_odd(double x) {
    float y = (float)x;
    if (x != x || (double)y == x) return y;
    if (isinf(y)) return x > 0 ? 3.4028235e38f : -3.4028235e38f;
    uint32_t b = adm_bits_u32(y);
    return (b & 1) ? y : adm_bits_f32(fabs((double)y) < fabs(x) ? b + 1 : b - 1);
}
/* The larger and the smaller of two, and NaN of a NaN. */
static inline double adm_max_f64(double x, double y) { return x != x || x > y ? x : y; }
static inline double adm_min_f64(double x, double y) { return x != x || x < y ? x : y; }
/* Pairs, and a launch. */
typedef struct { uint32_t x, y; } adm_vec2_u32;
typedef struct { float x, y; } adm_vec2_f32;
static inline adm_vec2_u32 adm_make_vec2_u32(uint32_t x, uint32_t y) { adm_vec2_u32 v = {x, y}; return v; }
static inline adm_vec2_f32 adm_make_vec2_f32(float x, float y) { adm_vec2_f32 v = {x, y}; return v; }
typedef struct { const uint32_t *p; void *const *b; } adm_launch;
typedef union { float f32; double f64; int32_t i32; uint32_t u32; int64_t i64; } adm_word;
/* Elements in memory, as bits. */
static inline uint32_t adm_get_1(const void *b, uint32_t at) { return ((const uint8_t *)b)[at]; }
static inline uint32_t adm_get_2(const void *b, uint32_t at) { uint16_t y; memcpy(&y, (const char *)b + (size_t)at * 2, 2); return y; }
static inline uint32_t adm_get_4(const void *b, uint32_t at) { uint32_t y; memcpy(&y, (const char *)b + (size_t)at * 4, 4); return y; }
static inline adm_vec2_u32 adm_get_8(const void *b, uint32_t at) { adm_vec2_u32 y; memcpy(&y, (const char *)b + (size_t)at * 8, 8); return y; }
static inline void adm_set_1(void *b, uint32_t at, uint32_t bits) { ((uint8_t *)b)[at] = (uint8_t)bits; }
static inline void adm_set_2(void *b, uint32_t at, uint32_t bits) { uint16_t y = (uint16_t)bits; memcpy((char *)b + (size_t)at * 2, &y, 2); }
static inline void adm_set_4(void *b, uint32_t at, uint32_t bits) { memcpy((char *)b + (size_t)at * 4, &bits, 4); }
static inline void adm_set_8(void *b, uint32_t at, adm_vec2_u32 bits) { memcpy((char *)b + (size_t)at * 8, &bits, 8); }
static inline uint64_t adm_pair(adm_vec2_u32 v) { return (uint64_t)v.x | (uint64_t)v.y << 32; }
static inline adm_vec2_u32 adm_unpair(uint64_t x) { return adm_make_vec2_u32((uint32_t)x, (uint32_t)(x >> 32)); }
static inline double adm_f64_of_bits(adm_vec2_u32 v) { return adm_bits_f64((int64_t)adm_pair(v)); }
static inline adm_vec2_u32 adm_bits_of_f64(double x) { return adm_unpair((uint64_t)adm_bits_i64(x)); }
/* Invocations run one after the other, so nothing comes between. */
static inline void adm_atomic_min(void *b, uint32_t at, uint32_t value) { if (value < adm_get_4(b, at)) adm_set_4(b, at, value); }
static inline void adm_atomic_and(void *b, uint32_t at, uint32_t value) { adm_set_4(b, at, adm_get_4(b, at) & value); }
static inline void adm_atomic_or(void *b, uint32_t at, uint32_t value) { adm_set_4(b, at, adm_get_4(b, at) | value); }
/* What a subgroup makes of the words of its invocations. */
#define ADM_SUBGROUP(name, type) \
    static inline type adm_sum_##name(const adm_word *w, uint32_t n) { type y = w[0].name; for (uint32_t k = 1; k < n; k++) y += w[k].name; return y; } \
    static inline type adm_most_##name(const adm_word *w, uint32_t n) { type y = w[0].name; for (uint32_t k = 1; k < n; k++) y = ADM_MAX(y, w[k].name); return y; } \
    static inline type adm_of_##name(const adm_word *w, uint32_t n, uint32_t from) { return w[from % n].name; }
ADM_SUBGROUP(f32, float)
ADM_SUBGROUP(f64, double)
ADM_SUBGROUP(i32, int32_t)
ADM_SUBGROUP(u32, uint32_t)
ADM_SUBGROUP(i64, int64_t)
#endif
