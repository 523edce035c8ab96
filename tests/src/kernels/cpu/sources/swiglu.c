/*
 * y = silu(gate) * up, silu(g) = g sigmoid(g). Gate and up are the halves of each row of x, as one matmul gives them.
 */
#include "vmath.h"

ENTRY void swiglu(const elem *restrict x, elem *restrict y, size_t rows, size_t cols)
{
    for (size_t row = 0; row < rows; row++, x += 2 * cols, y += cols) {
        const elem *restrict gate = x, *restrict up = x + cols;
        FOR_TILES(i, lane, cols, y[i] = gate[i] * sigmoid(gate[i]) * up[i]);
    }
}
