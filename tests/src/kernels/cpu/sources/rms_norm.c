/*
 * The step between two layers of a transformer: the residual stream takes in what the layer gave, and the next layer
 * gets it divided by its root mean square, y = r / sqrt(mean(r^2) + epsilon) * gamma with r = residual + x.
 */
#include "common.h"

#define SQRT(x) _Generic((x), f32: __builtin_sqrtf, f64: __builtin_sqrt)(x)

ENTRY void add_rms_norm(const elem *restrict x, elem *restrict residual, const elem *restrict gamma, elem *restrict y,
                        size_t rows, size_t cols, elem epsilon)
{
    for (size_t row = 0; row < rows; row++, x += cols, residual += cols, y += cols) {
        elem lanes[TILE] = {0};
        FOR_TILES(i, lane, cols, {
            const elem sum = residual[i] + x[i];
            residual[i] = sum;
            lanes[lane] += sum * sum;
        });
        const elem scale = 1 / SQRT(join_sum(lanes) / (elem)cols + epsilon);
        FOR_TILES(i, lane, cols, y[i] = residual[i] * scale * gamma[i]);
    }
}
