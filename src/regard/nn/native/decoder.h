/* What decoder.c gives. */

#ifndef DECODER_H
#define DECODER_H

#include "attention.h"
#include "linear.h"

typedef struct {
    int64_t kind, width;
    const float *weight, *bias;
    double eps;
} Norm;

typedef struct {
    int64_t heads, kv_heads, d_head, d_value;
    const Layer *input;   /* queries, keys and values side by side; of cross-attention the queries alone */
    const Layer *output;
} Heads;

typedef struct {
    Heads own, other;
    const Layer *inner, *outer;
    Norm own_norm, other_norm, feed_forward_norm;
} DecoderLayer;

typedef struct {
    int64_t layers, d_model, pre;
    int64_t widest, found;  /* the most outputs of a product, and the most numbers that the heads of a token find */
    const DecoderLayer *each;
    Norm last;
} Decoder;

/* What a search asks in a pass. */
typedef struct {
    int64_t rows, half;
    const int64_t *owners, *slots;    /* [rows] where keys and values of each token are kept */
    const Attention *back, *across;   /* who asks what; what belongs to a layer is filled in here */
    int64_t own_room, other_room;     /* slots of a group's grid, of its own tokens and of its source */
    void *const *grids;               /* [layers][4]: keys and values of their own, keys and values of the sources */
} Asked;

/* Floats of memory that a pass of so many rows works in. */
int64_t decoder_room(const Decoder *decoder, int64_t rows);

/* `x`, the tokens of all searches, becomes what the layers make of it. 0, or 1 if there is no memory. */
int decoder_pass(
    const Decoder *decoder, const Asked *const *asked, int64_t searches, int64_t rows, float *x, float *room,
    int threads);

#endif
