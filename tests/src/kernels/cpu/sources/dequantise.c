/*
 * x = (q - zero) * scale, uint8 with one zero point and one scale for each row, as weights are shipped.
 */
#include "common.h"

ENTRY void dequantise(const uint8_t *restrict q, const uint8_t *restrict zeros, const elem *restrict scales,
                      elem *restrict x, size_t rows, size_t cols)
{
    for (size_t row = 0; row < rows; row++, q += cols, x += cols) {
        const i32 zero = zeros[row];
        const elem scale = scales[row];
        FOR_TILES(i, lane, cols, x[i] = (elem)((i32)q[i] - zero) * scale);
    }
}
