/* Weights of 4 or 8 bits, each 32 inputs of an output with a scale of their own; as Q4_1, Q4_0 and Q8_0 of GGUF files.

   Outputs lie in panels of 16. Of a panel and a group of 32 inputs, `codes` has, of 8 bits, 8 times 16 outputs of 4
   inputs each; of 4 bits, 4 times that, inputs 0 to 15 in the low halves of the bytes and 16 to 31 in the high ones.
   `scales` has 16 halves, and 16 more of what is added (Q4_1). */

#ifndef GROUPS_H
#define GROUPS_H

#include <stdint.h>

enum { GROUP = 32, PANEL = 16 };
enum { SHIFTED4 = 0, CENTRED4 = 1, CENTRED8 = 2 };  /* Q4_1, Q4_0, Q8_0 */

typedef struct {
    int64_t kind, inputs, outputs;  /* inputs are whole groups; panels are filled up with zeros */
    const uint8_t *codes;
    const uint16_t *scales;
    const float *bias;              /* or NULL */
} Grouped;

/* Tokens in 8 bits: each group of 32 numbers with a scale of its own. */
typedef struct {
    int8_t *codes;   /* [tokens, inputs] */
    float *scales;   /* [tokens, groups] */
    float *sums;     /* the same: the scale times the sum of the codes */
    int32_t *wholes; /* the sum itself */
} Rounded;

/* Bytes that tokens take, and where they lie in so many. */
int64_t rounded_bytes(int64_t tokens, int64_t inputs);
Rounded rounded_at(void *room, int64_t tokens, int64_t inputs);
void round_token(const float *x, int64_t inputs, Rounded r, int64_t token);

/* Outputs of the panels from `first` to before `last`, of all tokens; `y` has rows of `stride`. */
void grouped_panels(
    const Grouped *w, Rounded r, int64_t tokens, int64_t first, int64_t last, float *y, int64_t stride);

#endif
