/*
 * The cross entropy of each row of logits with its label, -log softmax(x)[label], as max + log(sum(exp(x - max))) -
 * x[label]. Only the sums are vectors; the one logarithm of a row is a Newton iteration on the exponential.
 */
#include "vmath.h"

/* The y with exp(y) = x, for 1 <= x. Each step y + 2 (x - e^y) / (x + e^y) triples the number of correct digits. */
static elem logarithm(elem x)
{
    elem y = 0;
    for (elem rest = x; rest >= 2; rest /= 2)
        y += (elem)0.69314718055994530942;
    for (int step = 0; step < 3; step++) {
        const elem power = EXP(y);
        y += 2 * (x - power) / (x + power);
    }
    return y;
}

ENTRY void cross_entropy(const elem *restrict logits, const uint32_t *restrict labels, elem *restrict losses,
                         size_t rows, size_t cols)
{
    for (size_t row = 0; row < rows; row++, logits += cols) {
        const elem largest = row_max(logits, cols);
        elem lanes[TILE] = {0};
        FOR_TILES(i, lane, cols, lanes[lane] += EXP(logits[i] - largest));
        losses[row] = largest + logarithm(join_sum(lanes)) - logits[labels[row]];
    }
}
