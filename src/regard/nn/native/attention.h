/* What attention.c gives. */

#ifndef ATTENTION_H
#define ATTENTION_H

#include <stdint.h>

typedef struct {
    int64_t sequences, heads, kv_heads, d_head, d_value;
    const float *queries;
    const void *keys, *values;                       /* float, or half precision if `half` */
    int64_t half;
    int64_t query_token, key_token, value_token;     /* numbers from one token to the next */
    int64_t key_head, value_head;                    /* from one head to the next; those of a query lie together */
    int64_t key_sequence, value_sequence;            /* and from one sequence to the next, in a cache; 0 if packed */
    const int64_t *asking;                           /* [sequences + 1] where the queries of each begin and end */
    const int64_t *starts, *counts;                  /* [sequences] the first key of each, NULL for 0; and how many */
    const uint8_t *sees;                             /* [queries, seen_token] 0 hides a key; NULL: all are seen */
    int64_t seen_token, before, after;               /* how far a query sees; -1: to the end */
    const float *bias;                               /* [heads, bias_head] added to scores by distance, key - query; */
    int64_t bias_head, bias_middle;                  /* that of 0 is number bias_middle; a register may be read past */
    float *output;                                   /* [queries, heads d_value] */
    float scale;
} Attention;

/* 0, or 1 if there is no memory for the keys of the longest sequence. */
int attend(const Attention *a, int threads);

/* Keys, or values, of new tokens go to their slots in a cache. */
void keep(
    int64_t tokens, int64_t heads, int64_t d, const float *x, int64_t token, const int64_t *owners,
    const int64_t *slots, void *cache, int64_t sequence, int64_t half);

#endif
