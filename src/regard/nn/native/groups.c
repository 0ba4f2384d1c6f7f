/* y = W x + b for weights in groups (groups.h) and tokens that are rounded to 8 bits on the spot.

       y_j = sum over groups g of  s_x[g] (s_w[j, g] sum_i q_x[i] q_w[j, i]  +  m_w[j, g] sum_i q_x[i])

   The inner sums are exact, in whole numbers. The outer one goes group by group, by fused multiply-adds, in the same
   order everywhere: scalars, AVX2 and AVX-512 VNNI give the same bits. */

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "groups.h"
#include "threads.h"

enum { MOST = 8 };  /* tokens at a time */

int64_t rounded_bytes(int64_t tokens, int64_t inputs)
{
    return (tokens * inputs + 63) / 64 * 64 + 3 * ((tokens * (inputs / GROUP) * 4 + 63) / 64 * 64);
}

Rounded rounded_at(void *room, int64_t tokens, int64_t inputs)
{
    const int64_t numbers = (tokens * (inputs / GROUP) * 4 + 63) / 64 * 64;
    uint8_t *at = (uint8_t *)room + (tokens * inputs + 63) / 64 * 64;
    return (Rounded){
        room, (float *)at, (float *)(at + numbers), (int32_t *)(at + 2 * numbers)};
}

void round_token(const float *x, int64_t inputs, Rounded r, int64_t token)
{
    const int64_t groups = inputs / GROUP;
    int8_t *codes = r.codes + token * inputs;
    for (int64_t g = 0; g < groups; g++, x += GROUP, codes += GROUP) {
        float largest = 0;
        for (int i = 0; i < GROUP; i++) {
            const float size = fabsf(x[i]);
            largest = size > largest ? size : largest;
        }
        const float inverse = largest > 0 ? 127.0f / largest : 0, scale = largest / 127.0f;
        int32_t sum = 0;
        for (int i = 0; i < GROUP; i++) {
            const int32_t code = (int32_t)((x[i] * inverse + 0x1.8p23f) - 0x1.8p23f);
            codes[i] = (int8_t)code;
            sum += code;
        }
        r.scales[token * groups + g] = scale;
        r.sums[token * groups + g] = scale * (float)sum;
        r.wholes[token * groups + g] = sum;
    }
}

static inline float half_of(uint16_t x) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(x))); }

/* As it is written above, one output after the other. */
static void plain_panel(
    const Grouped *w, const uint8_t *codes, const uint16_t *scales, Rounded r, int64_t token, float *y)
{
    const int64_t groups = w->inputs / GROUP;
    const int wide = w->kind == CENTRED8, shifted = w->kind == SHIFTED4;
    const int32_t middle = wide ? 128 : w->kind == CENTRED4 ? 8 : 0;
    for (int o = 0; o < PANEL; o++) {
        float sum = 0;
        for (int64_t g = 0; g < groups; g++) {
            const uint8_t *own = codes + g * PANEL * GROUP / (wide ? 1 : 2);
            const int8_t *x = r.codes + token * w->inputs + g * GROUP;
            int32_t whole = -middle * r.wholes[token * groups + g];
            for (int i = 0; i < GROUP; i++) {
                const int chunk = i / 4, place = o * 4 + i % 4;
                const uint8_t code = wide        ? own[64 * chunk + place]
                                     : chunk < 4 ? own[64 * chunk + place] & 15
                                                 : own[64 * (chunk - 4) + place] >> 4;
                whole += (int32_t)x[i] * code;
            }
            const uint16_t *scale = scales + g * PANEL * (1 + shifted);
            sum = fmaf((float)whole, half_of(scale[o]) * r.scales[token * groups + g], sum);
            if (shifted) sum = fmaf(half_of(scale[PANEL + o]), r.sums[token * groups + g], sum);
        }
        y[o] = sum;
    }
}

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)

#define VECTORS 1
static inline __attribute__((always_inline)) void panel_of(
    int kind, int tokens, int64_t groups, const uint8_t *codes, const uint16_t *scales, const int8_t *x,
    const float *s, const float *sums, const int32_t *wholes, float (*y)[PANEL])
{
    const __m512i low = _mm512_set1_epi8(15);
    __m512 found[MOST];
    for (int t = 0; t < tokens; t++) found[t] = _mm512_setzero_ps();
    for (int64_t g = 0; g < groups; g++) {
        __m512i w[8];
        if (kind == CENTRED8) {
            for (int c = 0; c < 8; c++) w[c] = _mm512_loadu_si512(codes + 64 * c);
            codes += 512;
        } else {
            for (int c = 0; c < 4; c++) {
                const __m512i both = _mm512_loadu_si512(codes + 64 * c);
                w[c] = _mm512_and_si512(both, low);
                w[c + 4] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
            }
            codes += 256;
        }
        const __m512 scale = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)scales));
        __m512 shift = _mm512_setzero_ps();
        if (kind == SHIFTED4) shift = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(scales + PANEL)));
        scales += kind == SHIFTED4 ? 2 * PANEL : PANEL;
        for (int t = 0; t < tokens; t++) {
            const int64_t at = t * groups + g;
            const int8_t *own = x + at * GROUP;
            const int32_t middle = kind == CENTRED8 ? 128 : kind == CENTRED4 ? 8 : 0;
            __m512i whole = middle ? _mm512_set1_epi32(-middle * wholes[at]) : _mm512_setzero_si512();
            for (int c = 0; c < 8; c++) {
                int32_t four;
                memcpy(&four, own + 4 * c, 4);
                whole = _mm512_dpbusd_epi32(whole, w[c], _mm512_set1_epi32(four));
            }
            const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(s[at]));
            found[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole), both, found[t]);
            if (kind == SHIFTED4) found[t] = _mm512_fmadd_ps(shift, _mm512_set1_ps(sums[at]), found[t]);
        }
    }
    for (int t = 0; t < tokens; t++) _mm512_storeu_ps(y[t], found[t]);
}

#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#define VECTORS 1
/* Four inputs of eight outputs: products of 8 bits, added in pairs in 16 bits, which have room for them, and then in 32. */
static inline __m256i four_more(__m256i sum, int wide, __m256i w, int32_t four)
{
    const __m256i x = _mm256_set1_epi32(four), ones = _mm256_set1_epi16(1);
    const __m256i pairs = wide ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                               : _mm256_maddubs_epi16(w, x);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
}

static inline __attribute__((always_inline)) void panel_of(
    int kind, int tokens, int64_t groups, const uint8_t *codes, const uint16_t *scales, const int8_t *x,
    const float *s, const float *sums, const int32_t *wholes, float (*y)[PANEL])
{
    const int wide = kind == CENTRED8;
    const __m256i low = _mm256_set1_epi8(15), middle8 = _mm256_set1_epi8((char)128);
    for (int half = 0; half < 2; half++) {
        __m256 found[MOST];
        for (int t = 0; t < tokens; t++) found[t] = _mm256_setzero_ps();
        for (int64_t g = 0; g < groups; g++) {
            const uint8_t *own = codes + g * (wide ? 512 : 256) + 32 * half;
            __m256i w[8];
            for (int c = 0; c < (wide ? 8 : 4); c++) {
                const __m256i both = _mm256_loadu_si256((const __m256i *)(own + 64 * c));
                if (wide) {
                    w[c] = _mm256_xor_si256(both, middle8);
                } else {
                    w[c] = _mm256_and_si256(both, low);
                    w[c + 4] = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
                }
            }
            const uint16_t *scale_at = scales + g * PANEL * (kind == SHIFTED4 ? 2 : 1) + 8 * half;
            const __m256 scale = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)scale_at));
            for (int t = 0; t < tokens; t++) {
                const int64_t at = t * groups + g;
                __m256i whole = _mm256_set1_epi32(kind == CENTRED4 ? -8 * wholes[at] : 0);
                for (int c = 0; c < 8; c++) {
                    int32_t four;
                    memcpy(&four, x + at * GROUP + 4 * c, 4);
                    whole = four_more(whole, wide, w[c], four);
                }
                const __m256 both = _mm256_mul_ps(scale, _mm256_set1_ps(s[at]));
                found[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), both, found[t]);
                if (kind == SHIFTED4) {
                    const __m256 shift = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(scale_at + PANEL)));
                    found[t] = _mm256_fmadd_ps(shift, _mm256_set1_ps(sums[at]), found[t]);
                }
            }
        }
        for (int t = 0; t < tokens; t++) _mm256_storeu_ps(y[t] + 8 * half, found[t]);
    }
}
#endif

#ifdef VECTORS
#define OF_KIND(kind, n) \
    case n: panel_of(kind, n, groups, codes, scales, x, s, sums, wholes, y); break
#define TOKENS_OF(kind) \
    switch (tokens) { \
        OF_KIND(kind, 1); OF_KIND(kind, 2); OF_KIND(kind, 3); OF_KIND(kind, 4); \
        OF_KIND(kind, 5); OF_KIND(kind, 6); OF_KIND(kind, 7); OF_KIND(kind, 8); \
    }

static void fast_panel(
    int64_t kind, int64_t tokens, int64_t groups, const uint8_t *codes, const uint16_t *scales, const int8_t *x,
    const float *s, const float *sums, const int32_t *wholes, float (*y)[PANEL])
{
    switch (kind) {
        case SHIFTED4: TOKENS_OF(SHIFTED4) break;
        case CENTRED4: TOKENS_OF(CENTRED4) break;
        default: TOKENS_OF(CENTRED8)
    }
}
#endif

static void panels(
    const Grouped *w, Rounded r, int64_t tokens, int64_t first, int64_t last, float *y, int64_t stride, int plain)
{
    const int64_t groups = w->inputs / GROUP;
    const int64_t code_bytes = groups * PANEL * GROUP / (w->kind == CENTRED8 ? 1 : 2);
    const int64_t scale_count = groups * PANEL * (w->kind == SHIFTED4 ? 2 : 1);
    for (int64_t p = first; p < last; p++) {
        const uint8_t *codes = w->codes + p * code_bytes;
        const uint16_t *scales = w->scales + p * scale_count;
        const int64_t here = w->outputs - p * PANEL < PANEL ? w->outputs - p * PANEL : PANEL;
        for (int64_t t = 0; t < tokens; t += MOST) {
            const int64_t some = tokens - t < MOST ? tokens - t : MOST;
            float found[MOST][PANEL];
#ifdef VECTORS
            if (!plain)
                fast_panel(
                    w->kind, some, groups, codes, scales, r.codes + t * w->inputs, r.scales + t * groups,
                    r.sums + t * groups, r.wholes + t * groups, found);
            else
#endif
                for (int64_t each = 0; each < some; each++)
                    plain_panel(w, codes, scales, r, t + each, found[each]);
            for (int64_t each = 0; each < some; each++) {
                float *row = y + (t + each) * stride + p * PANEL;
                if (w->bias != NULL)
                    for (int64_t o = 0; o < here; o++) row[o] = found[each][o] + w->bias[p * PANEL + o];
                else
                    memcpy(row, found[each], here * sizeof(float));
            }
        }
    }
}

void grouped_panels(
    const Grouped *w, Rounded r, int64_t tokens, int64_t first, int64_t last, float *y, int64_t stride)
{
    panels(w, r, tokens, first, last, y, stride, 0);
}

typedef struct {
    const Grouped *w;
    const float *x;
    int64_t tokens;
    float *y;
    Rounded r;
    int64_t plain;
} Product;

static void product(void *data)
{
    const Product *a = data;
    const int64_t thread = omp_get_thread_num(), count = (a->w->outputs + PANEL - 1) / PANEL;
    for (int64_t t = share(a->tokens, thread); t < share(a->tokens, thread + 1); t++)
        round_token(a->x + t * a->w->inputs, a->w->inputs, a->r, t);
    GOMP_barrier();
    panels(a->w, a->r, a->tokens, share(count, thread), share(count, thread + 1), a->y, a->w->outputs, a->plain);
}

/* y = W x + b, for tokens one behind the other; `plain` without registers. 1 where there is no memory. */
int64_t grouped(const Grouped *w, const float *x, int64_t tokens, float *y, int64_t threads, int64_t plain)
{
    void *room = aligned_alloc(64, rounded_bytes(tokens, w->inputs) + 64);
    if (room == NULL) return 1;
    Product job = {w, x, tokens, y, rounded_at(room, tokens, w->inputs), plain};
    in_threads((int)threads, product, &job);
    free(room);
    return 0;
}

#include "vectors.h"
#include <stddef.h>
#define AT(name) {#name, offsetof(Grouped, name)}
const Field grouped_fields[] = {
    AT(kind), AT(inputs), AT(outputs), AT(codes), AT(scales), AT(bias), {NULL, sizeof(Grouped)}};
