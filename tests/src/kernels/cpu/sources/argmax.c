/*
 * The largest element of each row and where it first is: greedy decoding.
 */
#include "common.h"

typedef struct {
    elem value[TILE];
    uint32_t index[TILE];
} best;

ENTRY void argmax(const elem *restrict x, elem *restrict values, uint32_t *restrict indices, size_t rows, size_t cols)
{
    for (size_t row = 0; row < rows; row++, x += cols) {
        best best;
        for (size_t lane = 0; lane < TILE; lane++) {
            best.value[lane] = x[0];
            best.index[lane] = 0;
        }
        FOR_TILES(i, lane, cols, {
            const int beats = x[i] > best.value[lane];
            best.value[lane] = beats ? x[i] : best.value[lane];
            best.index[lane] = beats ? (uint32_t)i : best.index[lane];
        });

        size_t first = 0;
        for (size_t lane = 1; lane < TILE; lane++) {
            const int equal = best.value[lane] == best.value[first] && best.index[lane] < best.index[first];
            if (best.value[lane] > best.value[first] || equal)
                first = lane;
        }
        values[row] = best.value[first];
        indices[row] = best.index[first];
    }
}
