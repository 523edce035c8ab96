/*
 * What every kernel shares: the element type and the way a row is folded.
 *
 * A kernel is compiled once for each set of macros:
 *   ELEM  the element type: f32 or f64
 *   TILE  how many elements are worked on together, a power of two
 * Loops over a tile have a fixed trip count, so the compiler turns them into vector instructions of whatever width the
 * CPU has. A fold keeps one partial result for each place in the tile and joins them as a tree: the order of the
 * additions depends on TILE alone, not on the CPU.
 */
#ifndef COMMON_H
#define COMMON_H

#include <stddef.h>
#include <stdint.h>

typedef float f32;
typedef double f64;
typedef int8_t i8;
typedef int32_t i32;

#ifndef ELEM
#define ELEM f32
#endif
#ifndef TILE
#define TILE 16
#endif

typedef ELEM elem;

_Static_assert(TILE >= 2 && (TILE & (TILE - 1)) == 0, "TILE is a power of two");

/* A kernel's entry, visible whatever the default visibility is. */
#define ENTRY __attribute__((visibility("default")))

static inline size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
static inline elem larger(elem a, elem b) { return a > b ? a : b; }
static inline elem magnitude(elem x) { return x < 0 ? -x : x; }

/* The sum of the places of a tile. */
static inline elem join_sum(elem lanes[TILE])
{
    for (size_t width = TILE / 2; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++)
            lanes[i] += lanes[i + width];
    return lanes[0];
}

/* The largest place of a tile. */
static inline elem join_max(elem lanes[TILE])
{
    for (size_t width = TILE / 2; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++)
            lanes[i] = larger(lanes[i], lanes[i + width]);
    return lanes[0];
}

/*
 * Runs `body` for i = 0 .. n - 1, TILE at a time, and then for what is left. `lane` is the place in the tile.
 * A macro, because the body is part of the loop that becomes vector instructions.
 */
#define FOR_TILES(i, lane, n, body)                                                                                    \
    do {                                                                                                               \
        const size_t whole_ = (n) / TILE * TILE;                                                                       \
        for (size_t base_ = 0; base_ < whole_; base_ += TILE)                                                          \
            for (size_t lane = 0; lane < TILE; lane++) {                                                               \
                const size_t i = base_ + lane;                                                                         \
                body;                                                                                                  \
            }                                                                                                          \
        for (size_t i = whole_; i < (n); i++) {                                                                        \
            const size_t lane = i - whole_;                                                                            \
            (void)lane;                                                                                                \
            body;                                                                                                      \
        }                                                                                                              \
    } while (0)

/* The sum of a row. */
static inline elem row_sum(const elem *restrict row, size_t n)
{
    elem lanes[TILE] = {0};
    FOR_TILES(i, lane, n, lanes[lane] += row[i]);
    return join_sum(lanes);
}

/* The largest element of a row that has at least one. */
static inline elem row_max(const elem *restrict row, size_t n)
{
    elem lanes[TILE];
    for (size_t lane = 0; lane < TILE; lane++)
        lanes[lane] = row[0];
    FOR_TILES(i, lane, n, lanes[lane] = larger(lanes[lane], row[i]));
    return join_max(lanes);
}

#endif
