/* Torch's own threads. They are asked for by the calls of its library, libgomp: an OpenMP pragma would be these calls
   by gcc, but by clang those of another library, whose threads would wait for torch's and torch's for them. */

#include <stdint.h>

void GOMP_parallel(void (*work)(void *), void *data, unsigned threads, unsigned flags);
void GOMP_barrier(void);
int omp_get_num_threads(void), omp_get_thread_num(void);

/* Each thread does `work`. */
static inline void in_threads(int threads, void (*work)(void *), void *data)
{
    GOMP_parallel(work, data, threads > 1 ? threads : 1, 0);
}

/* Where a thread's share of `count` jobs begins; that of the next is its end. */
static inline int64_t share(int64_t count, int64_t thread) { return count * thread / omp_get_num_threads(); }
