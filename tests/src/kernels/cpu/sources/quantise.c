/*
 * x in groups of GROUP elements to int8: q = round(x * 127 / largest), scale = largest / 127, where largest is the
 * largest magnitude of the group. Ties are rounded to even. The last group may be shorter.
 *
 * Adding 1.5 * 2^23 rounds to the nearest integer. Compile with -ffp-contract=off: the product is rounded before the
 * sum, so that the bytes are the same on every CPU.
 */
#define TILE GROUP
#include "common.h"

static i8 rounded(f32 x)
{
    const f32 shift = 0x1.8p23f;
    return (i8)(i32)((x + shift) - shift);
}

static void quantise_group(const f32 *restrict x, i8 *restrict q, f32 *restrict scale, size_t n)
{
    f32 lanes[GROUP] = {0};
    for (size_t i = 0; i < n; i++)
        lanes[i] = magnitude(x[i]);
    const f32 largest = join_max(lanes);
    const f32 factor = largest > 0 ? 127 / largest : 0;
    for (size_t i = 0; i < n; i++)
        q[i] = rounded(x[i] * factor);
    *scale = largest / 127;
}

ENTRY void quantise(const f32 *restrict x, i8 *restrict q, f32 *restrict scales, size_t n)
{
    const size_t groups = n / GROUP;
    for (size_t group = 0; group < groups; group++)
        quantise_group(x + group * GROUP, q + group * GROUP, scales + group, GROUP);
    if (n % GROUP != 0)
        quantise_group(x + groups * GROUP, q + groups * GROUP, scales + groups, n % GROUP);
}
