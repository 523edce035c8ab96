/*
 * y = gelu(x + bias), the activation with the bias of the layer before it.
 *
 *   ERF  0: x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)), which is the form with tanh
 *        1: x (1 + erf(x / sqrt 2)) / 2, erf by Abramowitz and Stegun 7.1.26 (absolute error below 1.5e-7)
 */
#include "vmath.h"

#ifndef ERF
#define ERF 0
#endif

#if ERF
static inline elem error_function(elem x)
{
    const elem size = magnitude(x);
    const elem t = 1 / (1 + (elem)0.3275911 * size);
    elem series = (elem)1.061405429;
    series = series * t - (elem)1.453152027;
    series = series * t + (elem)1.421413741;
    series = series * t - (elem)0.284496736;
    series = series * t + (elem)0.254829592;
    const elem result = 1 - series * t * EXP(-size * size);
    return x < 0 ? -result : result;
}

static inline elem gelu_of(elem x)
{
    return (elem)0.5 * x * (1 + error_function(x * (elem)0.70710678118654752440));
}
#else
static inline elem gelu_of(elem x)
{
    return x * sigmoid((elem)1.59576912160573071176 * (x + (elem)0.044715 * x * x * x));
}
#endif

ENTRY void gelu(const elem *restrict x, const elem *restrict bias, elem *restrict y, size_t rows, size_t cols)
{
    for (size_t row = 0; row < rows; row++, x += cols, y += cols)
        FOR_TILES(i, lane, cols, y[i] = gelu_of(x[i] + bias[i]));
}
