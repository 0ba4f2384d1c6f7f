/* Linear layers, with their bias and activation: in float32, and in 8 bits on processors with AVX-512 VNNI.

       y_rj = then( sum_i x_ri w_ji + b_j )

       y_rj = then( s_r t_j (sum_i u_ri v_ji - 128 sum_i v_ji) + b_j )

   u_ri  a token's numbers in whole steps of s_r, 128 higher: bytes without a sign
   v_ji  the weights in whole steps of t_j: bytes with one; one instruction multiplies 64 of each, and adds four
         products each to 16 sums

   Weights lie as they are read: in panels of outputs, by inputs; bytes by fours of inputs:

       [outputs / panel][inputs][panel]        [outputs / 64][inputs / 4][64][4]

   Six tokens by a panel fill the registers with sums, which stay there until all inputs are through. Few tokens are
   done with a panel before memory has the next: so that is asked for ahead, a part with each six. */

#include <immintrin.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "linear.h"
#include "threads.h"
#include "vectors.h"

enum { PANEL = WIDE * LANES };
enum { LINE = 64, LINES = 4 * PANEL / LINE };  /* bytes of a line of the cache; lines of a panel that a sum goes on with */
enum { BLOCK = 1 << 18 };  /* bytes of tokens for which a panel is read once: with it, they fit into a core's cache */
enum { NOTHING, RELU, GELU, GELU_TANH, SWISH };

#define AT(name) {#name, offsetof(Layer, name)}
const Field layer_fields[] = {
    AT(inputs), AT(outputs), AT(weights), AT(scales), AT(shifts), AT(bias), AT(then), AT(steps),
    {NULL, sizeof(Layer)},
};
#undef AT

/* What linear.py asks: outputs in a panel, and whether there are bytes. */
int linear_panel(void) { return PANEL; }
#ifdef __AVX512VNNI__
int linear_bytes(void) { return 1; }
#else
int linear_bytes(void) { return 0; }
#endif

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
    if (then == SWISH)
        for (int64_t i = 0; i < count; i++) y[i] *= 0.5f + 0.5f * tanh_of(0.5f * y[i]);
}

static inline void store_some(float *to, Vector x, int64_t count)
{
    if (count >= LANES) store(to, x);
    else memcpy(to, &x, sizeof(float) * count);
}

/* `tall` tokens, a constant wherever this is written out, by a panel. `lines` of what lies ahead are asked for each
   time that the sums go on. */
static inline __attribute__((always_inline)) void tile(
    const int tall, const int lines, const char *ahead, const float *x, const Layer *layer, int64_t panel, float *y)
{
    const float *weights = (const float *)layer->weights + panel * PANEL * layer->inputs;
    const int64_t first = panel * PANEL, inputs = layer->inputs;
    Vector sums[TALL][WIDE];
    UNROLL
    for (int r = 0; r < tall; r++)
        UNROLL
        for (int c = 0; c < WIDE; c++) sums[r][c] = load(layer->bias + first + LANES * c);
    for (int64_t i = 0; i < inputs; i++, weights += PANEL) {
        Vector each[WIDE];
        UNROLL
        for (int c = 0; c < WIDE; c++) each[c] = load(weights + LANES * c);
        UNROLL
        for (int line = 0; line < lines; line++, ahead += LINE) __builtin_prefetch(ahead, 0, 2);
        UNROLL
        for (int r = 0; r < tall; r++)
            UNROLL
            for (int c = 0; c < WIDE; c++) sums[r][c] += x[r * inputs + i] * each[c];
    }
    const int64_t left = layer->outputs - first;
    UNROLL
    for (int c = 0; c < WIDE; c++)
        if (LANES * c < left)
            UNROLL
            for (int r = 0; r < tall; r++)
                store_some(y + r * layer->outputs + first + LANES * c, sums[r][c], left - LANES * c);
}

#ifdef __AVX512VNNI__
/* A token in whole steps, and the size of its largest number. Sizes are compared by their bits, where infinity is
   larger than any number, and what is no number larger still: neither is lost. */
static float in_steps(const float *restrict x, int64_t count, float steps, uint8_t *restrict whole)
{
    uint32_t largest = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    float size;
    memcpy(&size, &largest, sizeof size);
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

static inline __attribute__((always_inline)) void tile_bytes(
    const int tall, const int lines, const char *ahead, const uint8_t *whole, int64_t width, const float *sizes,
    const Layer *layer, int64_t panel, float *y)
{
    const int8_t *weights = (const int8_t *)layer->weights + panel * PANEL * width;
    const int64_t first = panel * PANEL;
    __m512i sums[TALL][WIDE];
    UNROLL
    for (int r = 0; r < tall; r++)
        UNROLL
        for (int c = 0; c < WIDE; c++) sums[r][c] = _mm512_loadu_si512(layer->shifts + first + LANES * c);
    for (int64_t i = 0; i < width; i += 4, weights += 4 * PANEL) {
        const __m512i a = _mm512_loadu_si512(weights), b = _mm512_loadu_si512(weights + 64);
        const __m512i c = _mm512_loadu_si512(weights + 128), d = _mm512_loadu_si512(weights + 192);
        UNROLL
        for (int line = 0; line < lines; line++, ahead += LINE) __builtin_prefetch(ahead, 0, 2);
        UNROLL
        for (int r = 0; r < tall; r++) {
            int32_t four;
            memcpy(&four, whole + r * width + i, sizeof four);
            /* Written out, because compilers move the sums about when they are given the four intrinsics. */
            __asm__("vpdpbusd %5, %4, %0\n\tvpdpbusd %6, %4, %1\n\tvpdpbusd %7, %4, %2\n\tvpdpbusd %8, %4, %3"
                    : "+&v"(sums[r][0]), "+&v"(sums[r][1]), "+&v"(sums[r][2]), "+&v"(sums[r][3])
                    : "v"(_mm512_set1_epi32(four)), "v"(a), "v"(b), "v"(c), "v"(d));
        }
    }
    const int64_t left = layer->outputs - first;
    UNROLL
    for (int c = 0; c < WIDE; c++)
        if (LANES * c < left) {
            const Vector scale = load(layer->scales + first + LANES * c);
            const Vector bias = load(layer->bias + first + LANES * c);
            UNROLL
            for (int r = 0; r < tall; r++) {
                const Vector sum = (Vector)_mm512_cvtepi32_ps(sums[r][c]) * scale * sizes[r] + bias;
                store_some(y + r * layer->outputs + first + LANES * c, sum, left - LANES * c);
            }
        }
}
#endif

/* So that loops over tokens and lines are written out. */
#define EACH_TILE(tall, lines)            \
    do {                                  \
        if (lines == 0) EACH_TALL(tall, NONE) \
        else if (lines == 1) EACH_TALL(tall, ONE) \
        else EACH_TALL(tall, TWO)         \
    } while (0)

/* Up to `tall` tokens by a panel, and the activation: floats `x`, or bytes and their sizes. */
static void multiply(
    int tall, int lines, const char *ahead, const Layer *layer, const float *x, const uint8_t *whole, int64_t width,
    const float *sizes, int64_t panel, float *y)
{
    if (layer->scales == NULL) {
#define NONE(n) case n: tile(n, 0, ahead, x, layer, panel, y); break
#define ONE(n) case n: tile(n, 1, ahead, x, layer, panel, y); break
#define TWO(n) case n: tile(n, 2, ahead, x, layer, panel, y); break
        EACH_TILE(tall, lines);
#undef NONE
#undef ONE
#undef TWO
    }
#ifdef __AVX512VNNI__
    else {
#define NONE(n) case n: tile_bytes(n, 0, ahead, whole, width, sizes, layer, panel, y); break
#define ONE(n) case n: tile_bytes(n, 1, ahead, whole, width, sizes, layer, panel, y); break
#define TWO(n) case n: tile_bytes(n, 2, ahead, whole, width, sizes, layer, panel, y); break
        EACH_TILE(tall, lines);
#undef NONE
#undef ONE
#undef TWO
    }
#else
    (void)whole, (void)width, (void)sizes;
#endif
    const int64_t first = panel * PANEL, count = least(layer->outputs - first, PANEL);
    if (layer->then != NOTHING)
        for (int r = 0; r < tall; r++) activate(y + r * layer->outputs + first, count, layer->then);
}

typedef struct {
    const Layer *layer;
    const float *x;
    int64_t count, block, width;  /* tokens, how many at a time, and bytes of each: 0 in float32 */
    float *sizes, *y;
    uint8_t *whole;
} Product;

static void multiply_share(void *given)
{
    const Product *product = given;
    const Layer *layer = product->layer;
    const int64_t inputs = layer->inputs, outputs = layer->outputs, panels = (outputs + PANEL - 1) / PANEL;
    const int64_t width = product->width, thread = omp_get_thread_num();
    for (int64_t start = 0; start < product->count; start += product->block) {
        const int64_t some = least(product->count - start, product->block);
        const float *x = product->x + start * inputs;
#ifdef __AVX512VNNI__
        if (width) {
            for (int64_t r = share(some, thread); r < share(some, thread + 1); r++) {
                product->sizes[r] = in_steps(x + r * inputs, inputs, layer->steps, product->whole + r * width);
                memset(product->whole + r * width + inputs, 0, width - inputs);
            }
            GOMP_barrier();  /* each panel needs them all */
        }
#endif
        /* All of a panel is asked for by its first tiles; a single tile reads it as fast as memory gives it. */
        const int64_t size = LINE * (width ? width / 4 : inputs);
        const int lines = some > (LINES - 1) * TALL ? 1 : some > TALL ? least(2, LINES) : 0;
        for (int64_t panel = share(panels, thread); panel < share(panels, thread + 1); panel++) {
            const char *ahead = (const char *)layer->weights + (panel + 1) * LINES * size;
            for (int64_t r = 0, left = LINES; r < some; r += TALL, left -= lines, ahead += lines * size)
                multiply(
                    least(some - r, TALL), left > 0 ? lines : 0, ahead, layer, x + r * inputs,
                    width ? product->whole + r * width : NULL, width, width ? product->sizes + r : NULL, panel,
                    product->y + (start + r) * outputs);
        }
        if (width) GOMP_barrier();  /* until all are through with them */
    }
}

int linear(const Layer *layer, const float *x, int64_t count, float *y, int threads)
{
    const int64_t inputs = layer->inputs, width = layer->scales == NULL ? 0 : (inputs + 3) / 4 * 4;
    const int64_t block = least(count, most(BLOCK / most(width ? width : 4 * inputs, 1) / TALL, 1) * TALL);
    float *sizes = width ? malloc(most(block * (sizeof *sizes + width), 1)) : NULL;
    if (width && sizes == NULL) return 1;
    Product product = {
        .layer = layer,
        .x = x,
        .count = count,
        .block = block,
        .width = width,
        .sizes = sizes,
        .y = y,
        .whole = width ? (uint8_t *)(sizes + block) : NULL,
    };
    in_threads(threads, multiply_share, &product);
    free(sizes);
    return 0;
}
