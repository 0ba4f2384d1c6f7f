/* What can be done with registers of floats, besides sums and products. */

#ifndef REGISTERS_H
#define REGISTERS_H

#include <immintrin.h>

#include "vectors.h"

static inline int64_t up(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

static inline Vector all(float x) { return x - (Vector){0}; }

/* x where `which` is all ones, y where it is 0. */
static inline Vector choose(Places which, Vector x, Vector y)
{
    return (Vector)(((Places)x & which) | ((Places)y & ~which));
}

/* e^x for x <= 0, right to the last bit or two; 0 from where float has no more room. */
static inline Vector exp_of(Vector x)
{
    const Places none = x < -87.0f;
    x = choose(none, all(-87.0f), x);
    const Vector n = (x * 1.44269504f + 0x1.8p23f) - 0x1.8p23f;  /* rounded: there float has whole numbers only */
    const Vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    Vector p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + (r + 1.0f);
    const Vector power = (Vector)((__builtin_convertvector(n, Places) + 127) << 23);
    return choose(none, all(0), p * power);
}

/* Which places of two registers make one, by how far they are apart: 1, 2, 4, ... */
static Places OWN, ACROSS[4], LOW[4], HIGH[4];

__attribute__((constructor)) static void find_places(void)
{
    for (int i = 0; i < LANES; i++) OWN[i] = i;
    for (int level = 0, apart = 1; apart < LANES; level++, apart *= 2)
        for (int i = 0; i < LANES; i++) {
            ACROSS[level][i] = i ^ apart;
            LOW[level][i] = i & apart ? i - apart + LANES : i;
            HIGH[level][i] = i & apart ? i + LANES : i + apart;
        }
}

/* A register's numbers at these places; and those of two, whose places go on from one to the other. */
static inline Vector picked(Vector x, Places places)
{
#ifdef __AVX512F__
    return (Vector)_mm512_permutexvar_ps((__m512i)places, (__m512)x);
#else
    return (Vector)_mm256_permutevar8x32_ps((__m256)x, (__m256i)places);
#endif
}

static inline Vector picked_of_two(Vector a, Vector b, Places places)
{
#ifdef __AVX512F__
    return (Vector)_mm512_permutex2var_ps((__m512)a, (__m512i)places, (__m512)b);
#else
    return choose(places >= LANES, picked(b, places), picked(a, places));
#endif
}

/* Whether any place is not 0. */
static inline int any(Places places)
{
#ifdef __AVX512F__
    return _mm512_test_epi32_mask((__m512i)places, (__m512i)places) != 0;
#else
    return !_mm256_testz_si256((__m256i)places, (__m256i)places);
#endif
}

static inline Vector largest_of(Vector x, Vector y) { return choose(x > y, x, y); }

/* The largest number of a register, and the sum of all, everywhere in it. */
static inline Vector largest_in(Vector x)
{
    for (int level = 0; 1 << level < LANES; level++) x = largest_of(x, picked(x, ACROSS[level]));
    return x;
}

static inline Vector sum_in(Vector x)
{
    for (int level = 0; 1 << level < LANES; level++) x += picked(x, ACROSS[level]);
    return x;
}

#endif
