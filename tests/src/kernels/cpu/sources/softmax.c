/*
 * y = softmax(x) along each row. The largest element is subtracted first, so that no exponential overflows.
 */
#include "vmath.h"

ENTRY void softmax(const elem *restrict x, elem *restrict y, size_t rows, size_t cols)
{
    if (cols == 0)
        return;
    for (size_t row = 0; row < rows; row++, x += cols, y += cols) {
        const elem largest = row_max(x, cols);

        elem lanes[TILE] = {0};
        FOR_TILES(i, lane, cols, {
            const elem weight = EXP(x[i] - largest);
            y[i] = weight;
            lanes[lane] += weight;
        });

        const elem scale = 1 / join_sum(lanes);
        FOR_TILES(i, lane, cols, y[i] *= scale);
    }
}
