/* All layers of a language model of Llama's make, from embedded tokens to the scores of what follows: RMSNorm before
   each part, rotary positions, heads that share keys and values, SwiGLU; its weights in groups of 4 or 8 bits.

   Tokens are new ones of any rows of a cache, a step or whole prompts: each is told its row and its place there, and
   sees its row up to itself. Keys and values are halves, [layers, rows, kv_heads, room, d_head].

   Threads part the outputs of each product among them and wait for one another after it. Few tokens are normalised and
   rounded by each thread for itself, which is quicker than to wait once more. */

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "groups.h"
#include "registers.h"
#include "threads.h"

typedef struct {
    const Grouped *project, *output, *inner, *outer;
    const float *norm, *query_norm, *key_norm, *feed_forward_norm;  /* those of queries and keys may be NULL */
    int64_t before;                                                 /* keys before its own that a token sees; -1: all */
} CausalLayer;

typedef struct {
    int64_t layers, d_model, heads, kv_heads, d_head, d_ff;
    const CausalLayer *each;
    const float *final_norm;
    const Grouped *head;
    double eps;
    float scale;
} Causal;

typedef struct {
    int64_t tokens, wanted, apart;  /* apart: no two tokens of one row */
    float *x;                       /* [tokens, d_model]; written over */
    const int64_t *rows, *places, *lasts;
    const float *turns;             /* [positions, d_head]: cosines, then sines */
    uint16_t *keys, *values;
    int64_t cache_rows, room;
    float *scores;                  /* [wanted, vocabulary]: of the tokens `lasts` */
} Asking;

#define AT(name) {#name, offsetof(CausalLayer, name)}
const Field causal_layer_fields[] = {
    AT(project), AT(output), AT(inner), AT(outer), AT(norm), AT(query_norm), AT(key_norm), AT(feed_forward_norm),
    AT(before), {NULL, sizeof(CausalLayer)}};
#undef AT
#define AT(name) {#name, offsetof(Causal, name)}
const Field causal_fields[] = {
    AT(layers), AT(d_model), AT(heads), AT(kv_heads), AT(d_head), AT(d_ff), AT(each), AT(final_norm), AT(head),
    AT(eps), AT(scale), {NULL, sizeof(Causal)}};
#undef AT
#define AT(name) {#name, offsetof(Asking, name)}
const Field causal_asked_fields[] = {
    AT(tokens), AT(wanted), AT(apart), AT(x), AT(rows), AT(places), AT(lasts), AT(turns), AT(keys), AT(values),
    AT(cache_rows), AT(room), AT(scores), {NULL, sizeof(Asking)}};
#undef AT

enum { FEW = 16 };  /* tokens that each thread makes ready for itself */

typedef struct {
    const Causal *m;
    const Asking *a;
    int64_t threads, widest;
    uint8_t *rounded;       /* for all; or, of few tokens, some for each thread */
    int64_t rounded_size;
    float *wide, *found;    /* [tokens, widest] and [tokens, heads * d_head or d_ff] */
    float *work;            /* of each thread */
    int64_t work_size;
} Pass;

static inline float dot(const float *x, const float *y, int64_t count)
{
    Vector sum = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) sum += load(x + i) * load(y + i);
    float found = sum_in(sum)[0];
    for (; i < count; i++) found += x[i] * y[i];
    return found;
}

static void rms(const float *x, const float *weight, double eps, int64_t width, float *y)
{
    const float scale = (float)(1.0 / sqrt((double)dot(x, x, width) / (double)width + eps));
    for (int64_t i = 0; i < width; i++) y[i] = x[i] * scale * weight[i];
}

/* Eight or sixteen halves. */
static inline Vector halves(const uint16_t *from)
{
#ifdef __AVX512F__
    return (Vector)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
#else
    return (Vector)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
#endif
}

static inline void to_halves(uint16_t *to, const float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i += 8)
        _mm_storeu_si128((__m128i *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
}

/* Normalised (unless `weight` is NULL) and rounded tokens: all of them for this thread alone, or a share of them. */
static Rounded ready(const Pass *p, const float *x, const float *weight, int64_t width, int64_t thread, int all_alone)
{
    const int64_t tokens = p->a->tokens;
    float *normed = p->work + thread * p->work_size;
    const Rounded r = rounded_at(p->rounded + (all_alone ? thread * p->rounded_size : 0), tokens, width);
    const int64_t first = all_alone ? 0 : share(tokens, thread), last = all_alone ? tokens : share(tokens, thread + 1);
    for (int64_t t = first; t < last; t++) {
        const float *own = x + t * width;
        if (weight != NULL) {
            rms(own, weight, p->m->eps, width, normed);
            own = normed;
        }
        round_token(own, width, r, t);
    }
    if (!all_alone) GOMP_barrier();
    return r;
}

static inline int64_t panels_of(const Grouped *w) { return (w->outputs + PANEL - 1) / PANEL; }

static void times(const Pass *p, const Grouped *w, Rounded r, float *y, int64_t stride, int64_t thread)
{
    const int64_t count = panels_of(w);
    grouped_panels(w, r, p->a->tokens, share(count, thread), share(count, thread + 1), y, stride);
}

/* Turn a query or key by its place. */
static void turn(float *x, const float *turns, int64_t width)
{
    const int64_t half = width / 2;
    for (int64_t i = 0; i < half; i++) {
        const float a = x[i], b = x[i + half];
        x[i] = a * turns[i] - b * turns[i + half];
        x[i + half] = b * turns[i] + a * turns[i + half];
    }
}

static inline int64_t cell(const Pass *p, int64_t layer, int64_t row, int64_t head, int64_t place)
{
    const Causal *m = p->m;
    return (((layer * p->a->cache_rows + row) * m->kv_heads + head) * p->a->room + place) * m->d_head;
}

/* The queries and the key of some heads that share it, normalised and turned; key and value into the cache. */
static void put(const Pass *p, int64_t layer, int64_t t, int64_t head)
{
    const Causal *m = p->m;
    const CausalLayer *own = m->each + layer;
    const int64_t d = m->d_head, alike = m->heads / m->kv_heads, place = p->a->places[t];
    float *row = p->wide + t * p->widest, *key = row + (m->heads + head) * d;
    const float *turns = p->a->turns + place * d;
    for (int64_t h = head * alike; h < (head + 1) * alike; h++) {
        if (own->query_norm != NULL) rms(row + h * d, own->query_norm, m->eps, d, row + h * d);
        turn(row + h * d, turns, d);
    }
    if (own->key_norm != NULL) rms(key, own->key_norm, m->eps, d, key);
    turn(key, turns, d);
    const int64_t at = cell(p, layer, p->a->rows[t], head, place);
    to_halves(p->a->keys + at, key, d);
    to_halves(p->a->values + at, row + (m->heads + m->kv_heads + head) * d, d);
}

/* What the heads that share a key find, in the place of nothing else: `found` of the token. */
static void look(const Pass *p, int64_t layer, int64_t t, int64_t head, float *scores)
{
    const Causal *m = p->m;
    const int64_t d = m->d_head, alike = m->heads / m->kv_heads, place = p->a->places[t];
    const int64_t before = m->each[layer].before, first = before < 0 || place < before ? 0 : place - before;
    const int64_t count = place + 1 - first, at = cell(p, layer, p->a->rows[t], head, first);
    const uint16_t *keys = p->a->keys + at, *values = p->a->values + at;
    const float *queries = p->wide + t * p->widest + head * alike * d;
    float *found = p->found + t * m->heads * d + head * alike * d;
    for (int64_t h = 0; h < alike; h++) {
        float *own = scores + h * count;
        const float *query = queries + h * d;
        float largest = -INFINITY;
        for (int64_t j = 0; j < count; j++) {
            Vector sum = {0};
            for (int64_t i = 0; i < d; i += LANES) sum += load(query + i) * halves(keys + j * d + i);
            own[j] = sum_in(sum)[0] * m->scale;
            largest = own[j] > largest ? own[j] : largest;
        }
        float total = 0;
        int64_t j = 0;
        Vector sums = {0};
        for (; j + LANES <= count; j += LANES) {
            const Vector e = exp_of(load(own + j) - largest);
            store(own + j, e);
            sums += e;
        }
        total = sum_in(sums)[0];
        for (; j < count; j++) total += own[j] = exp_of(all(own[j] - largest))[0];
        for (int64_t i = 0; i < d; i += LANES) {
            Vector sum = {0};
            for (int64_t k = 0; k < count; k++) sum += own[k] * halves(values + k * d + i);
            store(found + h * d + i, sum / total);
        }
    }
}

static inline Vector silu(Vector x)
{
    const Vector e = exp_of(choose(x < 0, x, -x));  /* e^-|x| */
    return x * choose(x < 0, e, all(1)) / (e + 1.0f);
}

static void pass(void *data)
{
    const Pass *p = data;
    const Causal *m = p->m;
    const Asking *a = p->a;
    const int64_t thread = omp_get_thread_num(), tokens = a->tokens, d = m->d_model;
    const int alone = tokens <= FEW;
    float *x = a->x, *scores = p->work + thread * p->work_size;
    for (int64_t layer = 0; layer < m->layers; layer++) {
        const CausalLayer *own = m->each + layer;
        Rounded r = ready(p, x, own->norm, d, thread, alone);
        times(p, own->project, r, p->wide, p->widest, thread);
        GOMP_barrier();
        const int64_t jobs = tokens * m->kv_heads, first = share(jobs, thread), last = share(jobs, thread + 1);
        if (!a->apart) {
            for (int64_t job = first; job < last; job++) put(p, layer, job / m->kv_heads, job % m->kv_heads);
            GOMP_barrier();
        }
        for (int64_t job = first; job < last; job++) {
            if (a->apart) put(p, layer, job / m->kv_heads, job % m->kv_heads);
            look(p, layer, job / m->kv_heads, job % m->kv_heads, scores);
        }
        GOMP_barrier();
        r = ready(p, p->found, NULL, m->heads * m->d_head, thread, alone);
        const int64_t own_first = share(panels_of(own->output), thread) * PANEL;
        const int64_t own_last = least(share(panels_of(own->output), thread + 1) * PANEL, d);
        times(p, own->output, r, p->wide, p->widest, thread);
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t i = own_first; i < own_last; i++) x[t * d + i] += p->wide[t * p->widest + i];
        GOMP_barrier();
        r = ready(p, x, own->feed_forward_norm, d, thread, alone);
        /* panels of the gate, and those of what it lets through: the same numbers of both */
        const int64_t half = m->d_ff / PANEL, begin = share(half, thread), end = share(half, thread + 1);
        grouped_panels(own->inner, r, tokens, begin, end, p->wide, p->widest);
        grouped_panels(own->inner, r, tokens, half + begin, half + end, p->wide, p->widest);
        for (int64_t t = 0; t < tokens; t++) {
            const float *gate = p->wide + t * p->widest, *through = gate + m->d_ff;
            for (int64_t i = begin * PANEL; i < end * PANEL; i += LANES)
                store(p->found + t * m->d_ff + i, silu(load(gate + i)) * load(through + i));
        }
        GOMP_barrier();
        r = ready(p, p->found, NULL, m->d_ff, thread, alone);
        times(p, own->outer, r, p->wide, p->widest, thread);
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t i = own_first; i < own_last; i++) x[t * d + i] += p->wide[t * p->widest + i];
        GOMP_barrier();
    }
    float *normed = p->work + thread * p->work_size;
    const Rounded r = rounded_at(p->rounded, a->wanted, d);
    for (int64_t t = share(a->wanted, thread); t < share(a->wanted, thread + 1); t++) {
        rms(x + a->lasts[t] * d, m->final_norm, m->eps, d, normed);
        round_token(normed, d, r, t);
    }
    GOMP_barrier();
    const int64_t count = panels_of(m->head);
    grouped_panels(
        m->head, r, a->wanted, share(count, thread), share(count, thread + 1), a->scores, m->head->outputs);
}

/* 1 where there is no memory. */
int64_t causal_pass(const Causal *m, const Asking *a, int64_t longest, int64_t threads)
{
    const int64_t tokens = a->tokens, shared = m->heads * m->d_head;
    const int64_t widest = most(most((m->heads + 2 * m->kv_heads) * m->d_head, 2 * m->d_ff), m->d_model + PANEL);
    const int64_t broad = most(most(shared, m->d_ff), m->d_model);
    const int64_t rounded_size = rounded_bytes(most(tokens, a->wanted), broad);
    const int64_t work_size = (most(broad, (m->heads / m->kv_heads) * (longest + LANES)) + 15) / 16 * 16;
    const int64_t copies = tokens <= FEW ? threads : 1;
    const int64_t floats = tokens * widest + tokens * broad + threads * work_size + 64;
    uint8_t *room = aligned_alloc(64, (copies * rounded_size + floats * 4 + 63) / 64 * 64);
    if (room == NULL) return 1;
    float *wide = (float *)(room + copies * rounded_size);
    Pass p = {m, a, threads, widest, room, rounded_size, wide, wide + tokens * widest,
              wide + tokens * widest + tokens * broad, work_size};
    in_threads((int)threads, pass, &p);
    free(room);
    return 0;
}
