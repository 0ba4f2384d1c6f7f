/* A linear layer in 8 bits, for processors with AVX-512 VNNI. linear.py calls it.

       y_rj = then( s_r t_j (sum_i u_ri w_ji - 128 sum_i w_ji) + b_j )

   u_ri  a token's numbers in whole steps of s_r, 128 higher: bytes without a sign
   w_ji  the weights in whole steps of t_j: bytes with one

   One instruction multiplies 64 of the one by 64 of the other and adds four products each to 16 sums. Weights lie
   as it takes them, in panels of 64 outputs, and in a panel by fours of inputs:

       [outputs / 64][inputs / 4][64][4]

   Six tokens by a panel are 24 registers of sums, which stay where they are until all inputs are through. */

#ifdef __AVX512VNNI__

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PANEL = 64, LANES = 16, WIDE = PANEL / LANES, TALL = 6 };
enum { BLOCK = 48 };  /* tokens whose bytes are made at a time: they are still in the cache when they are needed */
enum { NOTHING, RELU, GELU, GELU_TANH };

typedef struct {
    int64_t inputs, outputs;
    const int8_t *weights;
    const float *scales;    /* t_j / steps */
    const int32_t *shifts;  /* -128 sum_i w_ji */
    const float *bias;
    int64_t then;
    float steps;            /* of a token, on each side of 0 */
} Layer;

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* A token in whole steps, and the size of its largest number. Sizes are compared by their bits, where infinity is
   larger than any number, and what is no number larger still: neither is lost. */
static float in_steps(const float *restrict x, int64_t count, float steps, uint8_t *restrict whole)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    float size;
    memcpy(&size, &most, sizeof size);
    /* A token of zeros is divided by 0; what comes of that is multiplied by 0. Where float begins to have whole
       numbers only, what is added is rounded, and lies in the lowest bits. */
    const float scale = steps / size, rounding = 0x1.8p23f;
    for (int64_t i = 0; i < count; i++) {
        const float sum = fmaf(x[i], scale, rounding);
        uint32_t bits;
        memcpy(&bits, &sum, sizeof bits);
        whole[i] = (uint8_t)(bits + 128);
    }
    return size;
}

/* erf and tanh as Eigen has them: x P(x^2) / Q(x^2), right to a few of the last bits. */
static inline float erf_of(float x)
{
    x = x > 4 ? 4 : x < -4 ? -4 : x;
    const float s = x * x;
    float p = -2.72614225801306e-10f, q = -1.45660718464996e-05f;
    p = fmaf(p, s, 2.77068142495902e-08f);
    p = fmaf(p, s, -2.10102402082508e-06f);
    p = fmaf(p, s, -5.69250639462346e-05f);
    p = fmaf(p, s, -7.34990630326855e-04f);
    p = fmaf(p, s, -2.95459980854025e-03f);
    p = fmaf(p, s, -1.60960333262415e-02f);
    q = fmaf(q, s, -2.13374055278905e-04f);
    q = fmaf(q, s, -1.68282697438203e-03f);
    q = fmaf(q, s, -7.37332916720468e-03f);
    q = fmaf(q, s, -1.42647390514189e-02f);
    return x * p / q;
}

static inline float tanh_of(float x)
{
    x = x > 7.99881172f ? 7.99881172f : x < -7.99881172f ? -7.99881172f : x;
    const float s = x * x;
    float p = -2.76076847742355e-16f, q = 1.19825839466702e-06f;
    p = fmaf(p, s, 2.00018790482477e-13f);
    p = fmaf(p, s, -8.60467152213735e-11f);
    p = fmaf(p, s, 5.12229709037114e-08f);
    p = fmaf(p, s, 1.48572235717979e-05f);
    p = fmaf(p, s, 6.37261928875436e-04f);
    p = fmaf(p, s, 4.89352455891786e-03f);
    q = fmaf(q, s, 1.18534705686654e-04f);
    q = fmaf(q, s, 2.26843463243900e-03f);
    q = fmaf(q, s, 4.89352518554385e-03f);
    return x * p / q;
}

static void activate(float *y, int64_t count, int64_t then)
{
    if (then == RELU)
        for (int64_t i = 0; i < count; i++) y[i] = y[i] < 0 ? 0 : y[i];
    if (then == GELU)
        for (int64_t i = 0; i < count; i++) y[i] *= 0.5f + 0.5f * erf_of(y[i] * 0.70710678f);
    if (then == GELU_TANH)
        for (int64_t i = 0; i < count; i++)
            y[i] *= 0.5f + 0.5f * tanh_of(y[i] * fmaf(0.035677408f, y[i] * y[i], 0.79788456f));
}

/* `tall` tokens, a constant wherever this is written out, by a panel. */
static inline __attribute__((always_inline)) void tile(
    const int tall, const uint8_t *whole, int64_t width, const float *sizes, const Layer *layer, int64_t panel, float *y)
{
    const int8_t *weights = layer->weights + panel * PANEL * width;
    const int64_t first = panel * PANEL;
    __m512i sums[TALL][WIDE];
#pragma GCC unroll 8
    for (int r = 0; r < tall; r++)
#pragma GCC unroll 8
        for (int c = 0; c < WIDE; c++) sums[r][c] = _mm512_loadu_si512(layer->shifts + first + LANES * c);
    for (int64_t i = 0; i < width; i += 4, weights += 4 * PANEL) {
        const __m512i a = _mm512_loadu_si512(weights), b = _mm512_loadu_si512(weights + 64);
        const __m512i c = _mm512_loadu_si512(weights + 128), d = _mm512_loadu_si512(weights + 192);
#pragma GCC unroll 8
        for (int r = 0; r < tall; r++) {
            int32_t four;
            memcpy(&four, whole + r * width + i, sizeof four);
            /* Written out, because compilers move the sums about when they are given the four intrinsics. */
            __asm__("vpdpbusd %5, %4, %0\n\tvpdpbusd %6, %4, %1\n\tvpdpbusd %7, %4, %2\n\tvpdpbusd %8, %4, %3"
                    : "+v"(sums[r][0]), "+v"(sums[r][1]), "+v"(sums[r][2]), "+v"(sums[r][3])
                    : "v"(_mm512_set1_epi32(four)), "v"(a), "v"(b), "v"(c), "v"(d));
        }
    }
    const int64_t left = layer->outputs - first;
#pragma GCC unroll 8
    for (int c = 0; c < WIDE; c++) {
        if (LANES * c >= left) break;
        const __mmask16 present = left - LANES * c >= LANES ? 0xffff : (1u << (left - LANES * c)) - 1;
        const __m512 scale = _mm512_loadu_ps(layer->scales + first + LANES * c);
        const __m512 bias = _mm512_loadu_ps(layer->bias + first + LANES * c);
#pragma GCC unroll 8
        for (int r = 0; r < tall; r++) {
            const __m512 found = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[r][c]), scale);
            _mm512_mask_storeu_ps(
                y + r * layer->outputs + first + LANES * c, present,
                _mm512_fmadd_ps(found, _mm512_set1_ps(sizes[r]), bias));
        }
    }
}

/* Tokens by panels `from` to `to`. */
static void tiles(
    const uint8_t *whole, int64_t width, const float *sizes, int64_t tokens, const Layer *layer,
    int64_t from, int64_t to, float *y)
{
    for (int64_t panel = from; panel < to; panel++)
        for (int64_t r = 0; r < tokens; r += TALL) {
#define OF(tall) case tall: tile(tall, whole + r * width, width, sizes + r, layer, panel, y + r * layer->outputs); break
            switch (least(tokens - r, TALL)) { OF(1); OF(2); OF(3); OF(4); OF(5); OF(6); }
#undef OF
        }
}

static void all_in_steps(const Layer *layer, const float *x, int64_t tokens, int64_t width, uint8_t *whole, float *sizes)
{
    for (int64_t r = 0; r < tokens; r++, whole += width) {
        sizes[r] = in_steps(x + r * layer->inputs, layer->inputs, layer->steps, whole);
        memset(whole + layer->inputs, 0, width - layer->inputs);
    }
}

/* 0, or 1 if there is no memory for the bytes of the tokens. */
int linear(const Layer *layer, const float *x, int64_t tokens, float *y, int threads)
{
    const int64_t width = (layer->inputs + 3) / 4 * 4, panels = (layer->outputs + PANEL - 1) / PANEL;
    int failed = 0;
    if (threads > 1 && tokens < threads * BLOCK) {  /* few tokens: to each thread its panels */
        float *sizes = malloc(tokens * (sizeof *sizes + width));
        if (sizes == NULL) return 1;
        uint8_t *whole = (uint8_t *)(sizes + tokens);
        all_in_steps(layer, x, tokens, width, whole, sizes);
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int own = 0; own < threads; own++)
            tiles(whole, width, sizes, tokens, layer, panels * own / threads, panels * (own + 1) / threads, y);
        activate(y, tokens * layer->outputs, layer->then);
        free(sizes);
        return 0;
    }
#pragma omp parallel num_threads(threads) if (threads > 1) reduction(| : failed)
    {
        float *sizes = malloc(BLOCK * (sizeof *sizes + width));
        failed = sizes == NULL;
#pragma omp for schedule(dynamic)
        for (int64_t start = 0; start < tokens; start += BLOCK) {
            if (failed) continue;
            const int64_t count = least(tokens - start, BLOCK);
            float *found = y + start * layer->outputs;
            uint8_t *whole = (uint8_t *)(sizes + BLOCK);
            all_in_steps(layer, x + start * layer->inputs, count, width, whole, sizes);
            tiles(whole, width, sizes, count, layer, 0, panels, found);
            activate(found, count * layer->outputs, layer->then);
        }
        free(sizes);
    }
    return failed;
}

#endif
