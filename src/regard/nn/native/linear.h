/* What linear.c gives. */

#ifndef LINEAR_H
#define LINEAR_H

#include <stdint.h>

typedef struct {
    int64_t inputs, outputs;
    const void *weights;    /* floats, or bytes if there are scales */
    const float *scales;    /* t_j / steps */
    const int32_t *shifts;  /* -128 sum_i v_ji */
    const float *bias;      /* like the two above for whole panels */
    int64_t then;
    float steps;            /* of a token in 8 bits, on each side of 0 */
} Layer;

/* 0, or 1 if there is no memory for the bytes of the tokens. */
int linear(const Layer *layer, const float *x, int64_t count, float *y, int threads);

#endif
