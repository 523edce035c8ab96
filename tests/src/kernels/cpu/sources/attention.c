/*
 * One head of attention, softmax(Q K^T / sqrt(HEAD_DIM)) V, without the matrix of scores: the softmax is kept up to
 * date while the keys pass by in tiles (an online softmax).
 *
 *   HEAD_DIM  the length of a query, a key and a value
 *   TILE      how many keys are scored together
 *   CAUSAL    1: query i sees the keys up to i, 0: it sees all of them
 */
#include "vmath.h"

#ifndef HEAD_DIM
#define HEAD_DIM 64
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif

enum { QUERIES = 4 };

/* The softmax of the keys seen so far, for a block of queries. */
typedef struct {
    elem largest[QUERIES];
    elem total[QUERIES];
    _Alignas(64) elem out[QUERIES][HEAD_DIM];
} running;

/* Keys of a tile, transposed, so that the scores of neighbours are neighbours; zeros where there is no key. */
static void pack_keys(elem packed[HEAD_DIM][TILE], const elem *restrict keys, size_t count)
{
    for (size_t j = 0; j < TILE; j++)
        for (size_t d = 0; d < HEAD_DIM; d++)
            packed[d][j] = j < count ? keys[j * HEAD_DIM + d] : 0;
}

/* scores[i][j] = query i . key j */
static void score(elem scores[QUERIES][TILE], const elem queries[QUERIES][HEAD_DIM], const elem keys[HEAD_DIM][TILE])
{
    for (size_t i = 0; i < QUERIES; i++)
        for (size_t j = 0; j < TILE; j++)
            scores[i][j] = 0;
    for (size_t d = 0; d < HEAD_DIM; d++)
        for (size_t i = 0; i < QUERIES; i++)
            for (size_t j = 0; j < TILE; j++)
                scores[i][j] += queries[i][d] * keys[d][j];
}

/* Takes in the first `visible` keys of a tile for query i: what was summed is scaled to the new largest score. */
static void take_in(running *restrict state, size_t i, elem scores[TILE], const elem *restrict values, size_t visible)
{
    elem lanes[TILE];
    for (size_t j = 0; j < TILE; j++)
        lanes[j] = j < visible ? scores[j] : state->largest[i];
    const elem largest = larger(state->largest[i], join_max(lanes));

    for (size_t j = 0; j < TILE; j++) {
        const elem weight = EXP(scores[j] - largest);
        scores[j] = j < visible ? weight : 0;
        lanes[j] = scores[j];
    }
    const elem shrink = EXP(state->largest[i] - largest);
    state->largest[i] = largest;
    state->total[i] = state->total[i] * shrink + join_sum(lanes);

    for (size_t d = 0; d < HEAD_DIM; d++)
        state->out[i][d] *= shrink;
    for (size_t j = 0; j < visible; j++)
        for (size_t d = 0; d < HEAD_DIM; d++)
            state->out[i][d] += scores[j] * values[j * HEAD_DIM + d];
}

/* `scale` is 1 / sqrt(HEAD_DIM), or what the model has instead. */
ENTRY void attention(const elem *restrict q, const elem *restrict k, const elem *restrict v, elem *restrict out,
                     size_t queries, size_t keys, elem scale)
{
    for (size_t first = 0; first < queries; first += QUERIES) {
        const size_t block = smaller(QUERIES, queries - first);
        _Alignas(64) elem scaled[QUERIES][HEAD_DIM] = {{0}};
        running state = {{0}, {0}, {{0}}};
        for (size_t i = 0; i < block; i++)
            for (size_t d = 0; d < HEAD_DIM; d++)
                scaled[i][d] = q[(first + i) * HEAD_DIM + d] * scale;
        for (size_t i = 0; i < QUERIES; i++)
            state.largest[i] = -1e30f;

        const size_t reach = CAUSAL ? smaller(keys, first + block) : keys;
        for (size_t base = 0; base < reach; base += TILE) {
            _Alignas(64) elem packed[HEAD_DIM][TILE], scores[QUERIES][TILE];
            const size_t count = smaller(TILE, keys - base);
            pack_keys(packed, k + base * HEAD_DIM, count);
            score(scores, (const elem(*)[HEAD_DIM])scaled, (const elem(*)[TILE])packed);
            for (size_t i = 0; i < block; i++) {
                const size_t limit = CAUSAL ? first + i + 1 : keys;
                if (limit > base)
                    take_in(&state, i, scores[i], v + base * HEAD_DIM, smaller(count, limit - base));
            }
        }
        for (size_t i = 0; i < block; i++)
            for (size_t d = 0; d < HEAD_DIM; d++)
                out[(first + i) * HEAD_DIM + d] = state.out[i][d] / state.total[i];
    }
}
