/* One pass through all layers of a translator's decoder: new tokens, which look back at what was kept of those before
   them, and across at their sources. The products and the attention are those of linear.c and attention.c.

       post-norm   x = norm(x + part(x))        pre-norm    x = x + part(norm(x))

   for each part: self-attention, cross-attention, feed-forward; and a last norm where there is one. Several searches
   may share a pass. Their tokens lie one behind the other, so a product is one for all; each looks at grids of its
   own. */

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "decoder.h"
#include "registers.h"
#include "threads.h"

enum { NO_NORM, LAYER_NORM, RMS_NORM };
enum { SMALL = 1 << 15 };  /* numbers of a norm below which a second thread does not pay */

#define AT(type, name) {#name, offsetof(type, name)}
const Field norm_fields[] = {
    AT(Norm, kind), AT(Norm, width), AT(Norm, weight), AT(Norm, bias), AT(Norm, eps), {NULL, sizeof(Norm)},
};
const Field heads_fields[] = {
    AT(Heads, heads), AT(Heads, kv_heads), AT(Heads, d_head), AT(Heads, d_value), AT(Heads, input), AT(Heads, output),
    {NULL, sizeof(Heads)},
};
const Field decoder_layer_fields[] = {
    AT(DecoderLayer, own), AT(DecoderLayer, other), AT(DecoderLayer, inner), AT(DecoderLayer, outer),
    AT(DecoderLayer, own_norm), AT(DecoderLayer, other_norm), AT(DecoderLayer, feed_forward_norm),
    {NULL, sizeof(DecoderLayer)},
};
const Field decoder_fields[] = {
    AT(Decoder, layers), AT(Decoder, d_model), AT(Decoder, pre), AT(Decoder, widest), AT(Decoder, found),
    AT(Decoder, each), AT(Decoder, last), {NULL, sizeof(Decoder)},
};
const Field asked_fields[] = {
    AT(Asked, rows), AT(Asked, half), AT(Asked, owners), AT(Asked, slots), AT(Asked, back), AT(Asked, across),
    AT(Asked, own_room), AT(Asked, other_room), AT(Asked, grids), {NULL, sizeof(Asked)},
};
#undef AT

/* The sum of a row's numbers, or of the squares of what each is above `mean`. */
static inline __attribute__((always_inline)) float sum_of(const float *x, int64_t count, const int squares, float mean)
{
    Vector sums[4] = {{0}};
    float rest = 0;
    int64_t i = 0;
    for (; i + 4 * LANES <= count; i += 4 * LANES)
        UNROLL
        for (int c = 0; c < 4; c++) {
            const Vector each = load(x + i + LANES * c) - mean;
            sums[c] += squares ? each * each : each;
        }
    for (; i < count; i++) rest += squares ? (x[i] - mean) * (x[i] - mean) : x[i];
    return sum_in((sums[0] + sums[1]) + (sums[2] + sums[3]))[0] + rest;
}

static void norm_row(const Norm *norm, const float *restrict x, float *restrict y)
{
    const int64_t width = norm->width;
    const float *weight = norm->weight, *bias = norm->bias;
    const float mean = norm->kind == LAYER_NORM ? sum_of(x, width, 0, 0) / width : 0;
    const float share = 1 / sqrtf(sum_of(x, width, 1, mean) / width + (float)norm->eps);
    if (bias == NULL)
        for (int64_t i = 0; i < width; i++) y[i] = (x[i] - mean) * share * weight[i];
    else
        for (int64_t i = 0; i < width; i++) y[i] = (x[i] - mean) * share * weight[i] + bias[i];
}

typedef struct {
    const Norm *norm;  /* of the sum; NULL for none */
    int64_t rows, width;
    const float *update;  /* is added to x; NULL for none */
    float *x, *y;
} Sum;

static void sum_share(void *given)
{
    const Sum *sum = given;
    const int64_t width = sum->width, thread = omp_get_thread_num();
    for (int64_t r = share(sum->rows, thread); r < share(sum->rows, thread + 1); r++) {
        float *x = sum->x + r * width;
        if (sum->update != NULL)
            for (int64_t i = 0; i < width; i++) x[i] += sum->update[r * width + i];
        if (sum->norm != NULL) norm_row(sum->norm, x, sum->y + r * width);
    }
}

/* x + update, which takes the place of x; and its norm, which goes to y. Either may be left out. */
static void add_and_norm(
    const Norm *norm, const float *update, int64_t rows, int64_t width, float *x, float *y, int threads)
{
    Sum sum = {.norm = norm, .rows = rows, .width = width, .update = update, .x = x, .y = y};
    in_threads(rows * width < SMALL ? 1 : threads, sum_share, &sum);
}

/* A norm alone: as the pass has it, to compare with. */
void norm(const Norm *norm, const float *x, int64_t rows, float *y)
{
    for (int64_t r = 0; r < rows; r++) norm_row(norm, x + r * norm->width, y + r * norm->width);
}

/* The rows of a search ask its grids of a layer: those of their own tokens, or across those of their sources. */
static int look(
    const Heads *heads, const Asked *asked, int across, void *const *grids, const float *queries, float *found,
    int threads)
{
    const int64_t key = heads->kv_heads * heads->d_head, value = heads->kv_heads * heads->d_value;
    const int64_t room = across ? asked->other_room : asked->own_room;
    Attention a = across ? *asked->across : *asked->back;
    a.heads = heads->heads, a.kv_heads = heads->kv_heads, a.d_head = heads->d_head, a.d_value = heads->d_value;
    a.queries = queries, a.query_token = heads->input->outputs;
    a.keys = grids[0], a.key_token = key, a.key_head = heads->d_head, a.key_sequence = room * key;
    a.values = grids[1], a.value_token = value, a.value_head = heads->d_value, a.value_sequence = room * value;
    a.half = asked->half, a.output = found, a.scale = (float)(1 / sqrt((double)heads->d_head));
    return attend(&a, threads);
}

static int self_attention(
    const DecoderLayer *layer, int64_t number, const Asked *const *asked, int64_t searches, int64_t rows,
    const float *x, float *wide, float *found, float *update, int threads)
{
    const Heads *heads = &layer->own;
    const int64_t width = heads->input->outputs, key = heads->kv_heads * heads->d_head;
    int failed = linear(heads->input, x, rows, wide, threads);
    for (int64_t s = 0, row = 0; s < searches && !failed; row += asked[s++]->rows) {
        const Asked *own = asked[s];
        void *const *grids = own->grids + 4 * number;
        const float *queries = wide + row * width, *keys = queries + heads->heads * heads->d_head;
        keep(
            own->rows, heads->kv_heads, heads->d_head, keys, width, own->owners, own->slots, grids[0],
            own->own_room * key, own->half);
        keep(
            own->rows, heads->kv_heads, heads->d_value, keys + key, width, own->owners, own->slots, grids[1],
            own->own_room * heads->kv_heads * heads->d_value, own->half);
        failed = look(heads, own, 0, grids, queries, found + row * heads->heads * heads->d_value, threads);
    }
    return failed || linear(heads->output, found, rows, update, threads);
}

static int cross_attention(
    const DecoderLayer *layer, int64_t number, const Asked *const *asked, int64_t searches, int64_t rows,
    const float *x, float *wide, float *found, float *update, int threads)
{
    const Heads *heads = &layer->other;
    const int64_t width = heads->input->outputs;
    int failed = linear(heads->input, x, rows, wide, threads);
    for (int64_t s = 0, row = 0; s < searches && !failed; row += asked[s++]->rows)
        failed = look(
            heads, asked[s], 1, asked[s]->grids + 4 * number + 2, wide + row * width,
            found + row * heads->heads * heads->d_value, threads);
    return failed || linear(heads->output, found, rows, update, threads);
}

int64_t decoder_room(const Decoder *decoder, int64_t rows)
{
    return rows * (2 * decoder->d_model + decoder->widest + decoder->found);
}

int decoder_pass(
    const Decoder *decoder, const Asked *const *asked, int64_t searches, int64_t rows, float *x, float *room,
    int threads)
{
    const int64_t width = decoder->d_model;
    float *normed = room, *update = normed + rows * width, *wide = update + rows * width;
    float *found = wide + rows * decoder->widest;
    const float *pending = NULL;  /* what is still to be added: with it comes the next norm, in one go */
    for (int64_t number = 0; number < decoder->layers; number++) {
        const DecoderLayer *layer = decoder->each + number;
        const Norm *norms[] = {&layer->own_norm, &layer->other_norm, &layer->feed_forward_norm};
        for (int part = 0; part < 3; part++) {
            if (decoder->pre) add_and_norm(norms[part], pending, rows, width, x, normed, threads);
            const float *in = decoder->pre ? normed : x;
            int failed;
            if (part == 0)
                failed = self_attention(layer, number, asked, searches, rows, in, wide, found, update, threads);
            else if (part == 1)
                failed = cross_attention(layer, number, asked, searches, rows, in, wide, found, update, threads);
            else
                failed = linear(layer->inner, in, rows, wide, threads) ||
                         linear(layer->outer, wide, rows, update, threads);
            if (failed) return 1;
            if (decoder->pre) pending = update;
            else {
                add_and_norm(norms[part], x, rows, width, update, normed, threads);
                memcpy(x, normed, sizeof(float) * rows * width);
            }
        }
    }
    const Norm *last = decoder->last.kind == NO_NORM ? NULL : &decoder->last;
    add_and_norm(last, pending, rows, width, x, normed, threads);
    if (last != NULL) memcpy(x, normed, sizeof(float) * rows * width);
    return 0;
}
