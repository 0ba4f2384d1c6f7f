/* A beam search as decode/beam.py writes it, whose steps need no Python: what each row becomes, which hypotheses have
   ended and which live on, and where the next keys go, as decode/groups.py has it. A step takes new tokens through the
   embedding, the layers and the vocabulary, for all searches at once, and then each keeps its own books.

   Python is told what only Python does: a source is done, the grids are too small or mostly empty, a score is no
   number. */

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "best.h"
#include "decoder.h"
#include "vectors.h"

enum { EXACT, FULL, ESTIMATE };  /* when a source is left: STOPS in beam.py */
enum { LEFT = 1, NARROW = 2, SPARSE = 4, OVER = 8, BROKEN = 16 };  /* what Python is told */

typedef struct {
    int64_t d_model, vocabulary;
    const float *tokens, *positions;  /* NULL for none */
    const Layer *head;
    float scale;
} Ends;

#define AT(name) {#name, offsetof(Ends, name)}
const Field ends_fields[] = {
    AT(d_model), AT(vocabulary), AT(tokens), AT(positions), AT(head), AT(scale), {NULL, sizeof(Ends)},
};
#undef AT

typedef struct {
    double score, ranking;
    int64_t length, row, finished;  /* a row of the step that had `length` tokens behind it */
} Kept;

typedef struct {
    int32_t row, token;  /* what was continued, and by what */
} Trace;

typedef struct {
    int64_t sources, beam, n_best, end, stop, minimum;
    double penalty;
    int64_t *maximums;                      /* [sources] */
    int64_t *hidden, hidden_count;          /* ids that never come, going up; behind them those with the end */
    /* of the rows, which lie by groups; twice, as each step makes the next from the one before */
    int64_t rows, length;
    int64_t *owners, *lengths, *tokens, *slots, *next_owners, *next_lengths;
    double *scores, *next_scores;
    uint8_t *sees, *next_sees;              /* [rows, room] */
    /* of the groups: a source that lives on is one */
    int64_t groups, present, room;
    int64_t *number, *bounds, *used, *keys; /* its source; its rows; slots that it uses; keys of its source */
    /* of the sources */
    Kept *kept;                             /* [sources, n_best], best first */
    int64_t *count, *finished;
    double *worst;
    uint8_t *gone;
    int64_t *left, left_count;              /* that are done since the last step */
    Trace *trace;                           /* of all steps, one behind the other */
    int64_t *steps, steps_room, trace_room; /* where each step's begin */
    double *values;                         /* [rows, 2 beam] the best continuations of each row, */
    int64_t *ids;
    Attention back, across;
    Asked asked;
    int64_t flags, needed;
} Books;

void books_free(Books *b)
{
    if (b == NULL) return;
    void *each[] = {
        b->maximums, b->hidden, b->owners, b->lengths, b->tokens, b->slots, b->next_owners, b->next_lengths, b->scores,
        b->next_scores, b->sees, b->next_sees, b->number, b->bounds, b->used, b->keys, b->kept, b->count, b->finished,
        b->worst, b->gone, b->left, b->trace, b->steps, b->values, b->ids,
    };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) free(each[i]);
    free(b);
}

static int64_t *copied(const int64_t *from, int64_t count)
{
    int64_t *found = malloc(sizeof *found * most(count, 1));
    if (found != NULL && count) memcpy(found, from, sizeof *found * count);
    return found;
}

static void *zeros(int64_t count, size_t size) { return calloc(most(count, 1), size); }

/* A row for each source, after its prefix: so many tokens, which it sees in the first slots. NULL if there is no
   memory. `hidden` are ids that never come and behind them, as many and one more, those with the end among them. */
Books *books_new(
    int64_t sources, int64_t beam, int64_t n_best, int64_t end, int64_t stop, int64_t minimum, double penalty,
    const int64_t *maximums, const int64_t *hidden, int64_t hidden_count, const int64_t *prefixes,
    const int64_t *keys, int64_t room)
{
    Books *b = zeros(1, sizeof *b);
    if (b == NULL) return NULL;
    const int64_t rows = sources * beam;
    b->sources = b->groups = b->present = b->rows = sources;
    b->beam = beam, b->n_best = n_best, b->end = end, b->stop = stop, b->minimum = minimum, b->penalty = penalty;
    b->hidden_count = hidden_count, b->room = room;
    b->maximums = copied(maximums, sources), b->keys = copied(keys, sources);
    b->hidden = copied(hidden, 2 * hidden_count + 1);
    int64_t **whole[] = {&b->owners, &b->lengths, &b->tokens, &b->slots, &b->next_owners, &b->next_lengths};
    int failed = b->maximums == NULL || b->keys == NULL || b->hidden == NULL;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) failed |= (*whole[i] = zeros(rows, 8)) == NULL;
    int64_t **single[] = {&b->number, &b->used, &b->count, &b->finished, &b->left};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) failed |= (*single[i] = zeros(sources, 8)) == NULL;
    failed |= (b->scores = zeros(rows, 8)) == NULL || (b->next_scores = zeros(rows, 8)) == NULL;
    failed |= (b->sees = zeros(rows * room, 1)) == NULL || (b->next_sees = zeros(rows * room, 1)) == NULL;
    failed |= (b->bounds = zeros(sources + 1, 8)) == NULL || (b->kept = zeros(sources * n_best, sizeof(Kept))) == NULL;
    failed |= (b->worst = zeros(sources, 8)) == NULL || (b->gone = zeros(sources, 1)) == NULL;
    failed |= (b->values = zeros(rows * 2 * beam, 8)) == NULL || (b->ids = zeros(rows * 2 * beam, 8)) == NULL;
    if (failed) {
        books_free(b);
        return NULL;
    }
    for (int64_t s = 0; s < sources; s++) {
        b->owners[s] = b->number[s] = b->bounds[s] = s, b->lengths[s] = prefixes[s], b->worst[s] = -INFINITY;
        memset(b->sees + s * room, 1, prefixes[s]);
    }
    b->bounds[sources] = sources;
    return b;
}

int64_t books_rows(const Books *b) { return b->rows; }
int64_t books_flags(const Books *b) { return b->flags; }
int64_t books_needed(const Books *b) { return b->needed; }
void books_gone(Books *b, int64_t source) { b->gone[source] = 1; }

/* Where the keys lie, which may have more room than before. 1 if there is no memory. */
int books_lay(Books *b, int64_t own_room, int64_t other_room, int64_t half, void *const *grids)
{
    if (own_room > b->room) {
        const int64_t rows = b->sources * b->beam;
        uint8_t *sees = zeros(rows * own_room, 1), *next = zeros(rows * own_room, 1);
        if (sees == NULL || next == NULL) {
            free(sees), free(next);
            return 1;
        }
        for (int64_t r = 0; r < b->rows; r++) memcpy(sees + r * own_room, b->sees + r * b->room, b->room);
        free(b->sees), free(b->next_sees);
        b->sees = sees, b->next_sees = next, b->room = own_room;
    }
    b->asked = (Asked){.half = half, .own_room = own_room, .other_room = other_room, .grids = grids};
    return 0;
}

/* A slot for the next key of each row, the first ones that no row of its group sees; all that lie before the last one
   in use were written some time. What is needed, where there are too few. */
static void place(Books *b)
{
    const int64_t room = b->room;
    b->needed = 0;
    for (int64_t g = 0; g < b->groups; g++) {
        const int64_t first = b->bounds[g], end = b->bounds[g + 1];
        uint8_t seen[room];
        memset(seen, 0, room);
        for (int64_t r = first; r < end; r++)
            for (int64_t i = 0; i < room; i++) seen[i] |= b->sees[r * room + i];
        int64_t slot = 0, taken = 0;
        for (int64_t i = 0; i < room; i++) taken += seen[i];
        if (taken + end - first > room) {
            b->needed = most(b->needed, taken + end - first);
            continue;
        }
        for (int64_t r = first; r < end; r++) {
            while (seen[slot]) slot++;
            seen[slot] = 1, b->slots[r] = slot;
        }
        int64_t used = room;
        while (used && !seen[used - 1]) used--;
        b->used[g] = used;
    }
    if (b->needed) return;
    for (int64_t r = 0; r < b->rows; r++) b->sees[r * room + b->slots[r]] = 1;
}

/* Once more, in grids that have more room now. */
int64_t books_place(Books *b)
{
    place(b);
    return b->needed;
}

/* The groups that still have rows; how many. */
int64_t books_present(const Books *b, int64_t *groups)
{
    int64_t count = 0;
    for (int64_t g = 0; g < b->groups; g++)
        if (b->bounds[g + 1] > b->bounds[g]) groups[count++] = g;
    return count;
}

/* They close up: they have those grids alone, in this order. */
void books_close(Books *b)
{
    int64_t count = 0;
    for (int64_t g = 0; g < b->groups; g++) {
        const int64_t first = b->bounds[g], end = b->bounds[g + 1];
        if (end == first) continue;
        b->number[count] = b->number[g], b->used[count] = b->used[g], b->keys[count] = b->keys[g];
        for (int64_t r = first; r < end; r++) b->owners[r] = count;
        b->bounds[count++] = first;
    }
    b->bounds[count] = b->rows, b->groups = count;
}

static void keep_one(Books *b, int64_t source, Kept one, int sorted)
{
    Kept *kept = b->kept + source * b->n_best;
    int64_t at = b->count[source];
    if (at == b->n_best) {
        if (!(one.ranking > kept[at - 1].ranking)) return;
        at--;
    } else
        b->count[source]++;
    if (sorted)
        for (; at > 0 && one.ranking > kept[at - 1].ranking; at--) kept[at] = kept[at - 1];
    kept[at] = one;
    if (sorted && b->count[source] == b->n_best) b->worst[source] = kept[b->n_best - 1].ranking;
}

/* Where the next step's trace may be written; NULL if there is no memory. */
static Trace *next_trace(Books *b)
{
    const int64_t rows = b->sources * b->beam;
    if (b->length + 2 > b->steps_room) {
        int64_t *steps = realloc(b->steps, sizeof *steps * (2 * b->steps_room + 32));
        if (steps == NULL) return NULL;
        if (b->steps == NULL) steps[0] = 0;
        b->steps = steps, b->steps_room = 2 * b->steps_room + 32;
    }
    const int64_t first = b->steps[b->length];
    if (first + rows > b->trace_room) {
        const int64_t more = 2 * b->trace_room + rows;
        Trace *trace = realloc(b->trace, sizeof *trace * more);
        if (trace == NULL) return NULL;
        b->trace = trace, b->trace_room = more;
    }
    return b->trace + first;
}

typedef struct {
    double score;
    int64_t row, token;
} Continuation;

/* The best continuations of a group's rows, best first; of equals, that of the earlier row, then of the lower id. */
static int64_t continuations(const Books *b, int64_t first, int64_t end, Continuation *found)
{
    const int64_t wanted = 2 * b->beam;
    int64_t count = 0;
    for (int64_t r = first; r < end; r++)
        for (int64_t i = 0; i < wanted; i++) {
            const Continuation one = {b->scores[r] + b->values[r * wanted + i], r, b->ids[r * wanted + i]};
            if (!(one.score > -INFINITY) || (count == wanted && !(one.score > found[count - 1].score))) continue;
            int64_t at = count < wanted ? count++ : wanted - 1;
            for (; at > 0 && one.score > found[at - 1].score; at--) found[at] = found[at - 1];
            found[at] = one;
        }
    return count;
}

/* From the best tokens of each row to the rows of the next step. */
static int advance(Books *b)
{
    const int64_t beam = b->beam, room = b->room, length = b->length, rows = b->rows;
    b->flags = b->left_count = b->present = 0;
    for (int64_t i = 0; i < rows * 2 * beam; i++)
        if (isnan(b->values[i])) {
            b->flags = BROKEN;
            return 0;
        }
    Trace *trace = next_trace(b);
    if (trace == NULL) return 1;
    const double length_there = pow(length + 1, b->penalty);
    int64_t next = 0;
    for (int64_t g = 0; g < b->groups; g++) {
        const int64_t first = b->bounds[g], end = b->bounds[g + 1], source = b->number[g];
        b->bounds[g] = next;
        if (end == first) continue;
        Continuation found[2 * beam];
        const int64_t count = continuations(b, first, end, found);
        uint8_t ended[end - first];
        memset(ended, 0, end - first);
        for (int64_t i = 0; i < least(count, beam); i++)
            if (found[i].token == b->end) {
                b->finished[source]++, ended[found[i].row - first] = 1;
                const double ranking = found[i].score / length_there;
                keep_one(b, source, (Kept){found[i].score, ranking, length, found[i].row, 1}, 1);
            }
        const double reach = pow(b->penalty >= 0 ? b->maximums[source] + 1 : length + 2, b->penalty);
        int64_t held = 0;  /* the best that lives on */
        while (held < count && found[held].token == b->end) held++;
        const int full = b->stop == FULL && b->finished[source] >= beam;
        const int enough = b->stop == ESTIMATE && held < count && found[held].score / length_there <= b->worst[source];
        const int over = b->maximums[source] <= length || full || enough || b->gone[source];
        int64_t alive = 0;
        for (int64_t i = 0, others = 0; i < count && others < beam && !over; i++) {
            if (found[i].token == b->end) continue;
            others++;
            if (!(found[i].score / reach > b->worst[source])) continue;
            b->next_owners[next] = g, b->next_scores[next] = found[i].score, b->tokens[next] = found[i].token;
            b->next_lengths[next] = b->lengths[found[i].row] + (length > 0);
            memcpy(b->next_sees + next * room, b->sees + found[i].row * room, room);
            trace[next] = (Trace){found[i].row, found[i].token};
            next++, alive++;
        }
        b->present += alive > 0;
        if (alive) continue;
        for (int64_t r = first; r < end; r++)
            if (b->count[source] < b->n_best && !ended[r - first]) {
                const double ranking = b->scores[r] / pow(most(length, 1), b->penalty);
                keep_one(b, source, (Kept){b->scores[r], ranking, length, r, 0}, 0);
            }
        b->left[b->left_count++] = source;
    }
    b->bounds[b->groups] = next;
#define SWAP(type, one) do { type *was = b->one; b->one = b->next_##one; b->next_##one = was; } while (0)
    SWAP(int64_t, owners);
    SWAP(int64_t, lengths);
    SWAP(double, scores);
    SWAP(uint8_t, sees);
#undef SWAP
    b->rows = next;
    b->steps[length + 1] = b->steps[length] + next;
    b->length++;
    if (b->left_count) b->flags |= LEFT;
    if (next == 0) b->flags |= OVER;
    else {
        if (2 * b->present <= b->groups) b->flags |= SPARSE;  /* KEPT in decode/groups.py */
        place(b);
        if (b->needed) b->flags |= NARROW;
    }
    return 0;
}

static int choose(Books *b, const float *scores, int64_t token, int64_t vocabulary, int threads)
{
    const int early = b->length < b->minimum;
    best(
        scores, b->rows, token, vocabulary, 2 * b->beam, b->hidden + (early ? b->hidden_count : 0),
        b->hidden_count + early, b->values, b->ids, threads);
    return advance(b);
}

/* The first step, from the scores for what follows the prefixes. Flags, or -1 if there is no memory. */
int64_t books_begin(Books *b, const float *scores, int64_t token, int64_t vocabulary, int threads)
{
    return choose(b, scores, token, vocabulary, threads) ? -1 : b->flags;
}

/* Sources that are done since the last step, and how many. */
int64_t books_left(const Books *b, int64_t *sources)
{
    memcpy(sources, b->left, sizeof *sources * b->left_count);
    return b->left_count;
}

/* How many hypotheses are kept for a source. */
int64_t books_count(const Books *b, int64_t source) { return b->count[source]; }

/* One of them: its score, whether it came to its end, and its tokens, of which there are so many. */
int64_t books_kept(const Books *b, int64_t source, int64_t number, double *score, int64_t *finished, int64_t *ids)
{
    const Kept *one = b->kept + source * b->n_best + number;
    *score = one->score, *finished = one->finished;
    for (int64_t step = one->length, row = one->row; step > 0; step--) {
        const Trace *trace = b->trace + b->steps[step - 1] + row;
        ids[step - 1] = trace->token, row = trace->row;
    }
    return one->length;
}

/* Tokens of the longest hypothesis so far. */
int64_t books_length(const Books *b) { return b->length; }

/* Floats of memory that a step of so many rows works in. */
int64_t books_room(const Decoder *decoder, const Ends *ends, int64_t rows)
{
    return decoder_room(decoder, rows) + rows * (ends->d_model + ends->vocabulary);
}

static void embed(const Ends *ends, const Books *b, float *restrict x)
{
    const int64_t width = ends->d_model;
    for (int64_t r = 0; r < b->rows; r++, x += width) {
        const float *token = ends->tokens + b->tokens[r] * width;
        if (ends->positions == NULL)
            for (int64_t i = 0; i < width; i++) x[i] = token[i] * ends->scale;
        else {
            const float *position = ends->positions + b->lengths[r] * width;
            for (int64_t i = 0; i < width; i++) x[i] = token[i] * ends->scale + position[i];
        }
    }
}

/* A step of all searches. All their flags, or -1 if there is no memory. */
int64_t books_step(const Decoder *decoder, const Ends *ends, Books *const *each, int64_t searches, float *room, int threads)
{
    int64_t rows = 0, flags = 0;
    const Asked *asked[searches];
    for (int64_t s = 0; s < searches; s++) {
        Books *b = each[s];
        b->back = (Attention){.sequences = b->groups, .asking = b->bounds, .counts = b->used, .sees = b->sees,
                              .seen_token = b->room, .before = -1, .after = -1};
        b->across = (Attention){.sequences = b->groups, .asking = b->bounds, .counts = b->keys, .before = -1, .after = -1};
        b->asked.rows = b->rows, b->asked.owners = b->owners, b->asked.slots = b->slots;
        b->asked.back = &b->back, b->asked.across = &b->across;
        asked[s] = &b->asked;
        rows += b->rows;
    }
    float *x = room, *scores = x + rows * ends->d_model, *rest = scores + rows * ends->vocabulary;
    for (int64_t s = 0, row = 0; s < searches; row += each[s++]->rows) embed(ends, each[s], x + row * ends->d_model);
    if (decoder_pass(decoder, asked, searches, rows, x, rest, threads)) return -1;
    if (linear(ends->head, x, rows, scores, threads)) return -1;
    for (int64_t s = 0, row = 0; s < searches; s++) {
        const int64_t own = each[s]->rows;
        if (choose(each[s], scores + row * ends->vocabulary, ends->vocabulary, ends->vocabulary, threads)) return -1;
        row += own, flags |= each[s]->flags;
    }
    return flags;
}
