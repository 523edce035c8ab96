/*
 * y = W x, W in int8 with one scale for every GROUP elements of a row, x in f32: the matmul of a decoder that makes one
 * token at a time. ROWS rows go together, so that x is read once for all of them. cols is a multiple of GROUP.
 */
#define TILE GROUP
#include "common.h"

enum { ROWS = 4 };

/* The products of the rows named by row_of with x. */
static void dot_rows(f32 sums[ROWS], const i8 *restrict w, const f32 *restrict scales, const f32 *restrict x,
                     size_t groups, const size_t row_of[ROWS])
{
    for (size_t row = 0; row < ROWS; row++)
        sums[row] = 0;
    for (size_t group = 0; group < groups; group++) {
        for (size_t row = 0; row < ROWS; row++) {
            const size_t at = row_of[row] * groups + group;
            f32 lanes[GROUP];
            for (size_t i = 0; i < GROUP; i++)
                lanes[i] = (f32)w[at * GROUP + i] * x[group * GROUP + i];
            sums[row] += scales[at] * join_sum(lanes);
        }
    }
}

ENTRY void matvec(const i8 *restrict w, const f32 *restrict scales, const f32 *restrict x, f32 *restrict y, size_t rows,
                  size_t cols)
{
    const size_t groups = cols / GROUP;
    for (size_t first = 0; first < rows; first += ROWS) {
        const size_t block = smaller(ROWS, rows - first);
        size_t row_of[ROWS]; /* where fewer are left, the last again */
        for (size_t i = 0; i < ROWS; i++)
            row_of[i] = first + smaller(i, block - 1);
        f32 sums[ROWS];
        dot_rows(sums, w, scales, x, groups, row_of);
        for (size_t i = 0; i < block; i++)
            y[first + i] = sums[i];
    }
}
