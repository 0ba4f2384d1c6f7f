/* Log-probabilities of all tokens, or of the best of each row.

       value_t = x_t - largest - log sum_u e^(x_u - largest)

   The best: three times over a row, which stays in the cache meanwhile: the largest, the sum, and what is above the worst of the
   best so far. Values never fall as scores rise, so only scores that are above its score need be looked at. Of equal
   values, those of the lower ids are taken: rounded, different scores may have one. */

#include <math.h>
#include <stddef.h>

#include "best.h"
#include "registers.h"
#include "threads.h"

enum { SMALL = 1 << 16 };  /* scores below which a second thread does not pay */

typedef struct {
    const float *scores;
    int64_t rows, token, vocabulary, count;
    const int64_t *hidden;  /* ids that are never taken, going up */
    int64_t hidden_count;
    double *values;
    int64_t *ids;
} Choice;

static inline float value_of(float x, float largest, float log) { return (x - largest) - log; }

static int is_hidden(const Choice *choice, int64_t id)
{
    int64_t low = 0, high = choice->hidden_count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (choice->hidden[middle] < id) low = middle + 1;
        else high = middle;
    }
    return low < choice->hidden_count && choice->hidden[low] == id;
}

static float largest_score(const float *x, int64_t count)
{
    Vector found[2] = {all(-INFINITY), all(-INFINITY)};
    int64_t i = 0;
    for (; i + 2 * LANES <= count; i += 2 * LANES)
        UNROLL
        for (int c = 0; c < 2; c++) found[c] = largest_of(load(x + i + LANES * c), found[c]);
    float largest = largest_in(largest_of(found[0], found[1]))[0];
    for (; i < count; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

static float sum_of_powers(const float *x, int64_t count, float largest)
{
    Vector sums[2] = {{0}};
    int64_t i = 0;
    for (; i + 2 * LANES <= count; i += 2 * LANES)
        UNROLL
        for (int c = 0; c < 2; c++) sums[c] += exp_of(load(x + i + LANES * c) - largest);
    float sum = sum_in(sums[0] + sums[1])[0];
    for (; i < count; i++) sum += exp_of(all(x[i] - largest))[0];
    return sum;
}

/* One more that may be among the best, which lie best first. */
static void consider(const Choice *choice, int64_t id, float value, double *values, int64_t *ids)
{
    int64_t place = choice->count - 1;
    if (!(value > values[place]) || is_hidden(choice, id)) return;
    for (; place > 0 && value > values[place - 1]; place--) values[place] = values[place - 1], ids[place] = ids[place - 1];
    values[place] = value, ids[place] = id;
}

static void sort_by_id(int64_t count, double *values, int64_t *ids)
{
    for (int64_t i = 1; i < count; i++) {
        const int64_t id = ids[i];
        const double value = values[i];
        int64_t place = i;
        for (; place > 0 && ids[place - 1] > id; place--)
            ids[place] = ids[place - 1], values[place] = values[place - 1];
        ids[place] = id, values[place] = value;
    }
}

static void choose_row(const Choice *choice, const float *x, double *values, int64_t *ids)
{
    const int64_t vocabulary = choice->vocabulary, count = choice->count;
    const float largest = largest_score(x, vocabulary), sum = sum_of_powers(x, vocabulary, largest), log = logf(sum);
    /* What are no numbers stays so: a row of them has no best. */
    const int broken = isinf(largest) || isnan(sum);
    for (int64_t i = 0; i < count; i++) values[i] = broken ? NAN : -INFINITY, ids[i] = 0;
    if (broken) return;
    int64_t id = 0;
    float bound = -INFINITY;
#define CONSIDER(at)                                                     \
    do {                                                                  \
        consider(choice, at, value_of(x[at], largest, log), values, ids); \
        if (values[count - 1] > -INFINITY) bound = x[ids[count - 1]];     \
    } while (0)
    for (; id + 4 * LANES <= vocabulary; id += 4 * LANES) {
        Places above = {0};
        UNROLL
        for (int c = 0; c < 4; c++) above |= load(x + id + LANES * c) > bound;
        if (any(above))
            for (int64_t i = id; i < id + 4 * LANES; i++)
                if (x[i] > bound) CONSIDER(i);
    }
    for (; id < vocabulary; id++)
        if (x[id] > bound) CONSIDER(id);
#undef CONSIDER
    sort_by_id(count, values, ids);
}

static void choose_share(void *given)
{
    const Choice *choice = given;
    const int64_t thread = omp_get_thread_num(), count = choice->count;
    for (int64_t r = share(choice->rows, thread); r < share(choice->rows, thread + 1); r++)
        choose_row(choice, choice->scores + r * choice->token, choice->values + r * count, choice->ids + r * count);
}

void best(
    const float *scores, int64_t rows, int64_t token, int64_t vocabulary, int64_t count, const int64_t *hidden,
    int64_t hidden_count, double *values, int64_t *ids, int threads)
{
    Choice choice = {scores, rows, token, vocabulary, count, hidden, hidden_count, values, ids};
    in_threads(rows * vocabulary < SMALL ? 1 : threads, choose_share, &choice);
}

typedef struct {
    const float *scores;
    int64_t rows, token, vocabulary;
    float *values;
} Logs;

static void log_share(void *given)
{
    const Logs *logs = given;
    const int64_t thread = omp_get_thread_num(), vocabulary = logs->vocabulary;
    for (int64_t r = share(logs->rows, thread); r < share(logs->rows, thread + 1); r++) {
        const float *x = logs->scores + r * logs->token, largest = largest_score(x, vocabulary);
        const float log = logf(sum_of_powers(x, vocabulary, largest));
        float *values = logs->values + r * vocabulary;
        for (int64_t i = 0; i < vocabulary; i++) values[i] = value_of(x[i], largest, log);
    }
}

/* Of all tokens: [rows, vocabulary]. */
void log_softmax(const float *scores, int64_t rows, int64_t token, int64_t vocabulary, float *values, int threads)
{
    Logs logs = {scores, rows, token, vocabulary, values};
    in_threads(rows * vocabulary < SMALL ? 1 : threads, log_share, &logs);
}
