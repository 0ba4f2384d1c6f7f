/* What best.c gives. */

#ifndef BEST_H
#define BEST_H

#include <stdint.h>

/* Log-probabilities and ids of the `count` best of each row, in the order of their ids. Where there are not so many,
   -inf and some id; where a score is no number, none. `token` is how far one row is from the next. */
void best(
    const float *scores, int64_t rows, int64_t token, int64_t vocabulary, int64_t count, const int64_t *hidden,
    int64_t hidden_count, double *values, int64_t *ids, int threads);

#endif
