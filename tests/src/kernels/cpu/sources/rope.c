/*
 * Rotary position embedding, in place: element i of a head and its partner, HEAD_DIM / 2 away, are turned by
 * position * base^(-2i/HEAD_DIM). Cosines and sines come as tables with one row for each position.
 *
 *   HEAD_DIM  the length of a head
 *   TILE      how many pairs are turned together
 */
#include "common.h"

#ifndef HEAD_DIM
#define HEAD_DIM 64
#endif

enum { HALF = HEAD_DIM / 2 };

/* x: [positions][heads][HEAD_DIM], cosines, sines: [positions][HALF]. */
ENTRY void rope(elem *restrict x, const elem *restrict cosines, const elem *restrict sines, size_t positions,
                size_t heads)
{
    for (size_t position = 0; position < positions; position++, cosines += HALF, sines += HALF)
        for (size_t head = 0; head < heads; head++, x += HEAD_DIM) {
            elem *restrict first = x, *restrict second = x + HALF;
            FOR_TILES(i, lane, HALF, {
                const elem a = first[i];
                const elem b = second[i];
                first[i] = a * cosines[i] - b * sines[i];
                second[i] = b * cosines[i] + a * sines[i];
            });
        }
}
