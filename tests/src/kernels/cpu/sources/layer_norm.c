/*
 * y = (x - mean) / sqrt(variance + epsilon) * gamma + beta along each row. Two passes: the variance is summed from the
 * differences, since the mean of the squares minus the square of the mean cancels.
 */
#include "common.h"

#define SQRT(x) _Generic((x), f32: __builtin_sqrtf, f64: __builtin_sqrt)(x)

ENTRY void layer_norm(const elem *restrict x, const elem *restrict gamma, const elem *restrict beta, elem *restrict y,
                      size_t rows, size_t cols, elem epsilon)
{
    for (size_t row = 0; row < rows; row++, x += cols, y += cols) {
        const elem mean = row_sum(x, cols) / (elem)cols;

        elem lanes[TILE] = {0};
        FOR_TILES(i, lane, cols, {
            const elem difference = x[i] - mean;
            lanes[lane] += difference * difference;
        });
        const elem scale = 1 / SQRT(join_sum(lanes) / (elem)cols + epsilon);

        FOR_TILES(i, lane, cols, y[i] = (x[i] - mean) * scale * gamma[i] + beta[i]);
    }
}
