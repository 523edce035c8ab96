/*
 * A causal convolution of each channel with its own TAPS weights and a silu after it, as state-space models have it
 * before their scan. A row is a step in time, its neighbours are channels; steps before the first are zeros.
 */
#include "vmath.h"

#ifndef TAPS
#define TAPS 4
#endif

/* x, y: [steps][channels], weights: [TAPS][channels] with the newest step last, bias: [channels]. */
ENTRY void causal_conv1d(const elem *restrict x, const elem *restrict weights, const elem *restrict bias,
                         elem *restrict y, size_t steps, size_t channels)
{
    for (size_t step = 0; step < steps; step++, y += channels) {
        if (step + 1 >= TAPS) {
            const elem *restrict oldest = x + (step + 1 - TAPS) * channels;
            FOR_TILES(i, lane, channels, {
                elem sum = bias[i];
                for (size_t tap = 0; tap < TAPS; tap++)
                    sum += weights[tap * channels + i] * oldest[tap * channels + i];
                y[i] = sum * sigmoid(sum);
            });
        } else {
            FOR_TILES(i, lane, channels, {
                elem sum = bias[i];
                for (size_t tap = TAPS - 1 - step; tap < TAPS; tap++)
                    sum += weights[tap * channels + i] * x[(step + 1 + tap - TAPS) * channels + i];
                y[i] = sum * sigmoid(sum);
            });
        }
    }
}
