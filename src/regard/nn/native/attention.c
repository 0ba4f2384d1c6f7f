/* Attention of packed or cached tokens by the equation, for inference in float32.

       output_i = sum_j softmax_j(scale q_i . k_j + bias_(j - i)) v_j         for each sequence and each head

   Where the numbers lie is told by strides, so that nothing is copied before: queries, keys and values may be one
   packed projection, or keys and values a cache, which may be in half precision. Six queries at a time get their
   scores, their weights and their sums of values. Their scores come
     * if a sequence has more, from keys that are turned round first, so that a register has one number of many keys;
     * if none has, from keys as they lie: each is met once, and reading it is what takes the time. So it is done
       for all heads, which lie side by side; and what comes next is asked for meanwhile. */

#include <immintrin.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "registers.h"
#include "threads.h"

#define AT(name) {#name, offsetof(Attention, name)}
const Field attention_fields[] = {
    AT(sequences), AT(heads), AT(kv_heads), AT(d_head), AT(d_value), AT(queries), AT(keys), AT(values), AT(half),
    AT(query_token), AT(key_token), AT(value_token), AT(key_head), AT(value_head), AT(key_sequence),
    AT(value_sequence), AT(asking), AT(starts), AT(counts), AT(sees), AT(seen_token), AT(before), AT(after),
    AT(bias), AT(bias_head), AT(bias_middle), AT(output), AT(scale), {NULL, sizeof(Attention)},
};
#undef AT

enum { SMALL = 1 << 17 };  /* products of one number with another below which a second thread does not pay */

/* Numbers `at` and following of a cache. */
static inline Vector load_kept(const void *cache, int64_t at, const int half)
{
    if (!half) return load((const float *)cache + at);
#ifdef __AVX512F__
    return (Vector)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)((const uint16_t *)cache + at)));
#else
    return (Vector)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)((const uint16_t *)cache + at)));
#endif
}

/* `count` of them, by memory, if there are fewer than a register has. */
static void copy_kept(const void *cache, int64_t at, int64_t count, const int half, float *to)
{
    if (!half) memcpy(to, (const float *)cache + at, sizeof(float) * count);
    else
        for (int64_t i = 0; i < count; i++) to[i] = _cvtsh_ss(((const uint16_t *)cache)[at + i]);
}

/* LANES keys by LANES of their numbers, turned round: in each step, two registers exchange the neighbours, pairs,
   fours, ... in which they cross the diagonal. */
static inline __attribute__((always_inline)) void turn(Vector x[LANES])
{
    UNROLL
    for (int level = 0; 1 << level < LANES; level++) {
        const Places low = LOW[level], high = HIGH[level];
        UNROLL
        for (int i = 0; i < LANES; i++)
            if (!(i >> level & 1)) {
                const Vector a = x[i], b = x[i + (1 << level)];
                x[i] = picked_of_two(a, b, low);
                x[i + (1 << level)] = picked_of_two(a, b, high);
            }
    }
}

/* [count, d] becomes [d, up(count)]; what is added are zeros. */
static void turn_keys(
    const void *keys, int64_t at, int64_t token, int64_t count, int64_t d, const int half, float *turned)
{
    const int64_t width = up(count);
    for (int64_t j = 0; j < count; j += LANES)
        for (int64_t t = 0; t < d; t += LANES) {
            Vector x[LANES];
            if (t + LANES <= d && j + LANES <= count)
                for (int i = 0; i < LANES; i++) x[i] = load_kept(keys, at + (j + i) * token + t, half);
            else
                for (int i = 0; i < LANES; i++) {
                    const int64_t key = at + (j + i) * token + t;
                    x[i] = (Vector){0};
                    if (j + i < count && t + LANES <= d) x[i] = load_kept(keys, key, half);
                    else if (j + i < count) copy_kept(keys, key, d - t, half, (float *)&x[i]);
                }
            turn(x);
            for (int i = 0; i < least(d - t, LANES); i++) store(turned + (t + i) * width + j, x[i]);
        }
}

/* Scores of `tall` queries with `wide` registers of keys. */
static inline __attribute__((always_inline)) void score(
    const int tall, const int wide, const float *queries, int64_t token, const float *turned, int64_t width, int64_t d,
    float scale, float *scores)
{
    Vector sums[TALL][2];
    UNROLL
    for (int r = 0; r < tall; r++)
        UNROLL
        for (int c = 0; c < wide; c++) sums[r][c] = (Vector){0};
    for (int64_t t = 0; t < d; t++, turned += width) {
        Vector keys[2];
        UNROLL
        for (int c = 0; c < wide; c++) keys[c] = load(turned + LANES * c);
        UNROLL
        for (int r = 0; r < tall; r++)
            UNROLL
            for (int c = 0; c < wide; c++) sums[r][c] += queries[r * token + t] * keys[c];
    }
    UNROLL
    for (int r = 0; r < tall; r++)
        UNROLL
        for (int c = 0; c < wide; c++) store(scores + r * width + LANES * c, sums[r][c] * scale);
}

/* Scores of keys `from` to `to`, and their bias, become weights, not yet divided by their sum, which is given back;
   others 0. */
static float weigh(
    float *scores, int64_t width, int64_t from, int64_t to, const uint8_t *sees, const float *bias)
{
    Vector largest = all(-INFINITY), sum = all(0);
    if (bias != NULL)
        for (int64_t j = 0; j < width; j += LANES) store(scores + j, load(scores + j) + load(bias + j));
    if (sees != NULL)
        for (int64_t j = from; j < to; j++) scores[j] = sees[j] ? scores[j] : -INFINITY;
    for (int64_t j = 0; j < width; j += LANES) {
        const Places at = OWN + (int32_t)j, hidden = (at < (int32_t)from) | (at >= (int32_t)to);
        const Vector x = choose(hidden, all(-INFINITY), load(scores + j));
        store(scores + j, x);
        largest = largest_of(x, largest);
    }
    largest = largest_in(largest);
    /* Nothing is seen, so nothing is said; or what is seen are no numbers, and stays so. */
    largest = choose(largest == -INFINITY, all(0), largest);
    for (int64_t j = 0; j < width; j += LANES) {
        const Vector x = exp_of(load(scores + j) - largest);
        store(scores + j, x);
        sum += x;
    }
    return sum_in(sum)[0];
}

/* Scores of up to TALL queries with keys `low` to `high` of those that were turned round. */
static void score_turned(
    int tall, const float *queries, int64_t token, const float *turned, int64_t width, int64_t low, int64_t high,
    int64_t d, float scale, float *scores)
{
    int64_t j = low;
    for (; j + 2 * LANES <= high; j += 2 * LANES)
#define OF(n) case n: score(n, 2, queries, token, turned + j, width, d, scale, scores + j); break
        EACH_TALL(tall, OF)
#undef OF
    if (j < high)
#define OF(n) case n: score(n, 1, queries, token, turned + j, width, d, scale, scores + j); break
        EACH_TALL(tall, OF)
#undef OF
}

/* The same with all keys as they lie; d is a multiple of LANES. Each number of a register is one key's sum when the
   sums of LANES keys have been folded into one another. */
static inline __attribute__((always_inline)) void score_lying(
    int tall, const float *queries, int64_t token, const void *keys, int64_t at, int64_t key_token, int64_t count,
    int64_t d, const int half, float scale, float *scores)
{
    const int64_t width = up(count);
    for (int64_t j = 0; j < count; j += LANES, at += LANES * key_token)
        for (int r = 0; r < tall; r++) {
            Vector sums[LANES];
            UNROLL
            for (int i = 0; i < LANES; i++) sums[i] = (Vector){0};
            for (int64_t t = 0; t < d; t += LANES) {
                const Vector query = load(queries + r * token + t);
                if (j + LANES <= count)
                    UNROLL
                    for (int i = 0; i < LANES; i++) sums[i] += query * load_kept(keys, at + i * key_token + t, half);
                else
                    UNROLL
                    for (int i = 0; i < LANES; i++)
                        if (j + i < count) sums[i] += query * load_kept(keys, at + i * key_token + t, half);
            }
            UNROLL
            for (int level = 0; 1 << level < LANES; level++)
                UNROLL
                for (int i = 0; i < LANES >> (level + 1); i++) {
                    const Vector a = sums[2 * i], b = sums[2 * i + 1];
                    sums[i] = picked_of_two(a, b, LOW[level]) + picked_of_two(a, b, HIGH[level]);
                }
            store(scores + r * width + j, sums[0] * scale);
        }
}

/* Weighted sums of `wide` registers of values for `tall` queries. */
static inline __attribute__((always_inline)) void add_up(
    const int tall, const int wide, const float *weights, int64_t width, const float *shares, const void *values,
    int64_t at, int64_t token, int64_t count, const int half, float *output, int64_t output_token)
{
    Vector sums[TALL][WIDE];
    UNROLL
    for (int r = 0; r < tall; r++)
        UNROLL
        for (int c = 0; c < wide; c++) sums[r][c] = (Vector){0};
    for (int64_t j = 0; j < count; j++, at += token) {
        Vector each[WIDE];
        UNROLL
        for (int c = 0; c < wide; c++) each[c] = load_kept(values, at + LANES * c, half);
        UNROLL
        for (int r = 0; r < tall; r++)
            UNROLL
            for (int c = 0; c < wide; c++) sums[r][c] += weights[r * width + j] * each[c];
    }
    UNROLL
    for (int r = 0; r < tall; r++)
        UNROLL
        for (int c = 0; c < wide; c++) store(output + r * output_token + LANES * c, sums[r][c] * shares[r]);
}

/* All registers of values. `output` has room for whole ones. */
static inline __attribute__((always_inline)) void add_values(
    int tall, const float *weights, int64_t width, const float *shares, const void *values, int64_t at, int64_t token,
    int64_t count, int64_t d, const int half, float *output, int64_t output_token)
{
    for (int64_t c = 0; c < d;) {
        const int64_t left = (d - c) / LANES, wide = left >= WIDE ? WIDE : left >= 2 ? 2 : 1;
#define OF(n, w) \
    case n: add_up(n, w, weights, width, shares, values, at + c, token, count, half, output + c, output_token); break
#define OF1(n) OF(n, 1)
#define OF2(n) OF(n, 2)
#define OF4(n) OF(n, WIDE)
        if (wide == 1) EACH_TALL(tall, OF1)
        else if (wide == 2) EACH_TALL(tall, OF2)
        else EACH_TALL(tall, OF4)
#undef OF
        c += wide * LANES;
    }
}

static inline int64_t first_seen(const Attention *a, int64_t place, int64_t count)
{
    return a->before < 0 ? 0 : least(most(place - a->before, 0), count);
}

static inline int64_t end_seen(const Attention *a, int64_t place, int64_t count)
{
    return a->after < 0 ? count : least(most(place + a->after + 1, 0), count);
}

/* Of a head, `tall` queries from `query` on, the first of which stands at `place`: scores of keys `low` to `high` become
   weights, and `shares` what each is to be multiplied with. */
static void weigh_all(
    const Attention *a, int64_t head, int tall, int64_t query, int64_t place, int64_t count, int64_t low, int64_t high,
    float *scores, int64_t width, float *shares)
{
    for (int r = 0; r < tall; r++) {
        const int64_t from = first_seen(a, place + r, count), to = most(end_seen(a, place + r, count), from);
        const uint8_t *sees = a->sees == NULL ? NULL : a->sees + (query + r) * a->seen_token + low;
        const float *bias =
            a->bias == NULL ? NULL : a->bias + head * a->bias_head + a->bias_middle - (place + r) + low;
        const float sum = weigh(scores + r * width + low, high - low, from - low, to - low, sees, bias);
        shares[r] = sum == 0 ? 0 : 1 / sum;
    }
}

/* Where the keys, and the values, of a head begin. */
static inline int64_t first_key(const Attention *a, int64_t sequence, int64_t head)
{
    const int64_t start = a->starts == NULL ? 0 : a->starts[sequence];
    return sequence * a->key_sequence + start * a->key_token + head / (a->heads / a->kv_heads) * a->key_head;
}

static inline int64_t first_value(const Attention *a, int64_t sequence, int64_t head)
{
    const int64_t start = a->starts == NULL ? 0 : a->starts[sequence];
    return sequence * a->value_sequence + start * a->value_token + head / (a->heads / a->kv_heads) * a->value_head;
}

/* One sequence, one head: any number of queries, and any widths. */
static void attend_many(const Attention *a, int64_t sequence, int64_t head, float *room)
{
    const int64_t first = a->asking[sequence], asked = a->asking[sequence + 1] - first, count = a->counts[sequence];
    const int64_t width = up(count), d = a->d_head, dv = a->d_value, padded = up(dv), out = a->heads * dv;
    float *turned = room, *scores = turned + d * width, *found = scores + TALL * width, *copy = found + TALL * padded;
    const void *values = a->values;
    int64_t at = first_value(a, sequence, head), token = a->value_token;
    turn_keys(a->keys, first_key(a, sequence, head), a->key_token, count, d, a->half, turned);
    if (dv != padded || a->half) {  /* whole registers of floats are read */
        memset(copy, 0, sizeof(float) * count * padded);
        for (int64_t j = 0; j < count; j++) copy_kept(values, at + j * token, dv, a->half, copy + j * padded);
        values = copy, at = 0, token = padded;
    }
    for (int64_t i = 0; i < asked; i += TALL) {
        const int tall = least(asked - i, TALL);
        const float *queries = a->queries + (first + i) * a->query_token + head * d;
        float shares[TALL], *output = a->output + (first + i) * out + head * dv;
        /* The last query stands where the last key does. */
        const int64_t place = count - asked + i;
        const int64_t low = first_seen(a, place, count) / LANES * LANES, end = end_seen(a, place + tall - 1, count);
        const int64_t high = up(most(end, low));
        score_turned(tall, queries, a->query_token, turned, width, low, high, d, a->scale, scores);
        weigh_all(a, head, tall, first + i, place, count, low, high, scores, width, shares);
        add_values(
            tall, scores + low, width, shares, values, at + low * token, token, most(end - low, 0), padded, 0,
            dv == padded ? output : found, dv == padded ? out : padded);
        if (dv != padded)
            for (int r = 0; r < tall; r++) memcpy(output + r * out, found + r * padded, sizeof(float) * dv);
    }
}

/* Part `part` of `parts` of a sequence's keys or values, all heads, is asked for: it will be needed soon. */
static inline void expect(
    const void *cache, int64_t start, int64_t token, int64_t count, const int half, int64_t part, int64_t parts)
{
    const int64_t size = half ? 2 : 4, all = count * token * size;
    const char *from = (const char *)cache + start * size;
    for (int64_t at = all * part / parts / 64 * 64; at < all * (part + 1) / parts; at += 64)
        __builtin_prefetch(from + at);
}

/* One sequence, all heads: up to TALL queries, widths that are whole registers. */
static inline __attribute__((always_inline)) void attend_few(
    const Attention *a, int64_t sequence, const int half, float *room)
{
    const int64_t first = a->asking[sequence], count = a->counts[sequence], width = up(count);
    const int64_t out = a->heads * a->d_value;
    const int tall = a->asking[sequence + 1] - first;
    const float *queries = a->queries + first * a->query_token;
    for (int64_t head = 0; head < a->heads; head++) {
        expect(a->values, first_value(a, sequence, 0), a->value_token, count, half, head, a->heads);
        score_lying(
            tall, queries + head * a->d_head, a->query_token, a->keys, first_key(a, sequence, head), a->key_token,
            count, a->d_head, half, a->scale, room + head * TALL * width);
    }
    for (int64_t head = 0; head < a->heads; head++) {
        float shares[TALL], *scores = room + head * TALL * width;
        if (sequence + 1 < a->sequences)
            expect(
                a->keys, first_key(a, sequence + 1, 0), a->key_token, a->counts[sequence + 1], half, head, a->heads);
        weigh_all(a, head, tall, first, count - tall, count, 0, width, scores, width, shares);
        add_values(
            tall, scores, width, shares, a->values, first_value(a, sequence, head), a->value_token, count, a->d_value,
            half, a->output + first * out + head * a->d_value, out);
    }
}

typedef struct {
    const Attention *attention;
    int64_t whole;  /* whether widths are whole registers */
    int64_t jobs, at_a_time, room;  /* jobs of a sequence; how many a thread takes at a time; floats it needs */
    int64_t taken;
    int failed;
} Work;

static void attend_share(void *given)
{
    Work *work = given;
    const Attention *a = work->attention;
    const int64_t jobs = work->jobs, all = a->sequences * jobs;
    float *own = aligned_alloc(sizeof(Vector), sizeof(float) * most(up(work->room), LANES));
    if (own == NULL) {
        __atomic_store_n(&work->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    int64_t first;
    while ((first = __atomic_fetch_add(&work->taken, work->at_a_time, __ATOMIC_RELAXED)) < all)
        for (int64_t each = first; each < least(first + work->at_a_time, all); each++) {
            const int64_t sequence = each / jobs, asked = a->asking[sequence + 1] - a->asking[sequence];
            if (asked == 0) continue;
            /* Which of the two is a matter of the sequence alone: sums have the same order in any company. */
            if (!work->whole || asked > TALL) attend_many(a, sequence, each % jobs, own);
            else if (each % jobs) continue;
            else if (a->half) attend_few(a, sequence, 1, own);
            else attend_few(a, sequence, 0, own);
        }
    free(own);
}

int attend(const Attention *a, int threads)
{
    const int64_t padded = up(a->d_value), whole = padded == a->d_value && up(a->d_head) == a->d_head;
    int64_t longest = 0, many = 0, few_keys = 0;  /* `few_keys`: most keys of a sequence with few queries */
    for (int64_t s = 0; s < a->sequences; s++) {
        const int64_t asked = a->asking[s + 1] - a->asking[s];
        if (asked > 0) longest = most(longest, up(a->counts[s]));
        if (asked > 0 && asked <= TALL) few_keys = most(few_keys, up(a->counts[s]));
        many = most(many, asked);
    }
    if (a->sequences && a->asking[a->sequences] * a->heads * a->d_head * longest < SMALL) threads = 1;
    const int64_t few = whole && many <= TALL, copied = padded == a->d_value && !a->half ? 0 : padded;
    const int64_t room_few = whole ? few_keys * TALL * a->heads : 0, jobs = few ? 1 : a->heads;
    const int64_t room_many = few ? 0 : longest * (a->d_head + TALL + copied) + TALL * padded;
    Work work = {
        .attention = a,
        .whole = whole,
        .jobs = jobs,
        .at_a_time = most(1, least(8, a->sequences * jobs / (4 * threads))),
        .room = most(room_few, room_many),
    };
    in_threads(threads, attend_share, &work);
    return work.failed;
}

/* In half precision; none is larger than it can be. */
static inline void keep_half(const float *from, int64_t count, uint16_t *to)
{
    Vector x = {0};
    if (count == LANES) x = load(from);
    else memcpy(&x, from, sizeof(float) * count);
    x = choose(x > 65504, all(65504), choose(x < -65504, all(-65504), x));
#ifdef __AVX512F__
    const __m256i halves = _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
#else
    const __m128i halves = _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
#endif
    memcpy(to, &halves, sizeof(uint16_t) * count);
}

void keep(
    int64_t tokens, int64_t heads, int64_t d, const float *x, int64_t token, const int64_t *owners,
    const int64_t *slots, void *cache, int64_t sequence, int64_t half)
{
    for (int64_t r = 0; r < tokens; r++)
        for (int64_t h = 0; h < heads; h++) {
            const float *from = x + r * token + h * d;
            const int64_t at = owners[r] * sequence + (slots[r] * heads + h) * d;
            if (!half) memcpy((float *)cache + at, from, sizeof(float) * d);
            else
                for (int64_t i = 0; i < d; i += LANES)
                    keep_half(from + i, least(d - i, LANES), (uint16_t *)cache + at + i);
        }
}
