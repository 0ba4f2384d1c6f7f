/* A register of floats, as wide as the processor has them; and what else attention.c and linear.c share. */

#include <stdint.h>

#ifdef __AVX512F__
enum { LANES = 16, WIDE = 4 };  /* numbers in a register; registers of outputs whose sums are under way */
#else
enum { LANES = 8, WIDE = 2 };
#endif
enum { TALL = 6 };              /* and tokens */

typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef int32_t Places __attribute__((vector_size(4 * LANES)));
typedef float Loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));  /* wherever it lies */

static inline Vector load(const float *from) { return *(const Loose *)from; }
static inline void store(float *to, Vector x) { *(Loose *)to = x; }
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Where a field of a struct lies; the last has no name, and lies at the end. structs.py compares them. */
typedef struct {
    const char *name;
    int64_t at;
} Field;

/* Before a loop whose number of steps is known, 16 at most: written out, its sums stay in registers. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* So that loops over a number of tokens are written out: `OF(n)` is a case, for each n. */
#define EACH_TALL(tall, OF) switch (tall) { OF(1); OF(2); OF(3); OF(4); OF(5); OF(6); }
