/*
 * The sum of each row by halves (pairwise summation): the rounding error grows with the logarithm of the length. Below
 * LEAF elements the row is summed in the places of a tile.
 */
#include "common.h"

enum { LEAF = 8 * TILE };

static elem sum_halves(const elem *restrict x, size_t n)
{
    if (n <= LEAF)
        return row_sum(x, n);
    const size_t half = (n / 2 + LEAF - 1) / LEAF * LEAF;
    return sum_halves(x, half) + sum_halves(x + half, n - half);
}

ENTRY void sum(const elem *restrict x, elem *restrict y, size_t rows, size_t cols)
{
    for (size_t row = 0; row < rows; row++)
        y[row] = sum_halves(x + row * cols, cols);
}
