/*
 * A convolution of one image, planes of height x width, stride 1, zeros around it so that the size stays.
 *
 *   KSIZE  the edge of the filter, odd
 *   TILE   how many pixels of a line are computed together
 *
 * The lines that a tile of pixels reads are copied with their zeros into a window, and OUTS output planes are summed
 * from it together, in registers.
 */
#include "common.h"

#ifndef KSIZE
#define KSIZE 3
#endif

enum { HALF = KSIZE / 2, OUTS = 4, SPAN = TILE + KSIZE - 1 };

/* window[dy][i] = the pixel at (y + dy - HALF, x + i - HALF), 0 outside of the plane. */
static void load_window(elem window[KSIZE][SPAN], const elem *restrict plane, size_t height, size_t width, size_t y,
                        size_t x)
{
    for (size_t dy = 0; dy < KSIZE; dy++) {
        const int inside = y + dy >= HALF && y + dy - HALF < height;
        const elem *restrict line = plane + (inside ? y + dy - HALF : 0) * width;
        for (size_t i = 0; i < SPAN; i++)
            window[dy][i] = inside && x + i >= HALF && x + i - HALF < width ? line[x + i - HALF] : 0;
    }
}

/* sums[o] += filter o over the window; the filters of neighbouring output planes are `stride` apart. */
static void add_filters(elem sums[OUTS][TILE], const elem window[KSIZE][SPAN], const elem *restrict filters,
                        size_t stride, size_t outs)
{
    for (size_t o = 0; o < outs; o++)
        for (size_t dy = 0; dy < KSIZE; dy++)
            for (size_t dx = 0; dx < KSIZE; dx++) {
                const elem weight = filters[o * stride + dy * KSIZE + dx];
                for (size_t i = 0; i < TILE; i++)
                    sums[o][i] += weight * window[dy][i + dx];
            }
}

/* in: [ins][height][width], filters: [outs][ins][KSIZE][KSIZE], bias: [outs], out: [outs][height][width]. */
ENTRY void conv2d(const elem *restrict in, const elem *restrict filters, const elem *restrict bias, elem *restrict out,
                  size_t ins, size_t outs, size_t height, size_t width)
{
    for (size_t first = 0; first < outs; first += OUTS) {
        const size_t block = smaller(OUTS, outs - first);
        for (size_t y = 0; y < height; y++)
            for (size_t x = 0; x < width; x += TILE) {
                elem sums[OUTS][TILE] = {{0}};
                for (size_t c = 0; c < ins; c++) {
                    elem window[KSIZE][SPAN];
                    load_window(window, in + c * height * width, height, width, y, x);
                    const elem *restrict filter = filters + (first * ins + c) * KSIZE * KSIZE;
                    if (block == OUTS)
                        add_filters(sums, (const elem(*)[SPAN])window, filter, ins * KSIZE * KSIZE, OUTS);
                    else
                        add_filters(sums, (const elem(*)[SPAN])window, filter, ins * KSIZE * KSIZE, block);
                }
                for (size_t o = 0; o < block; o++)
                    for (size_t i = 0; i < smaller(TILE, width - x); i++)
                        out[((first + o) * height + y) * width + x + i] = sums[o][i] + bias[first + o];
            }
    }
}
