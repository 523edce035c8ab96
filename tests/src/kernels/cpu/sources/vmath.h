/*
 * Elementary functions that become vector instructions: no calls, no branches, no tables.
 *
 * exp(x) = 2^n exp(r), where n is the integer nearest to x / ln 2, so that |r| <= ln 2 / 2. exp(r) is its Taylor
 * series, cut where the next term is below half a unit in the last place: after r^7/7! for f32 (next 5e-9), after
 * r^13/13! for f64 (next 4e-18). Adding 1.5 * 2^(mantissa bits) rounds to the nearest integer and leaves n in the low
 * bits of the sum. ln 2 is taken in two parts, the first of them short enough for n * first to be exact.
 * Arguments are clamped to where the result is a normal number: exp never is 0 or infinite here.
 */
#ifndef VMATH_H
#define VMATH_H

#include "common.h"

static inline f32 exp_f32(f32 x)
{
    const f32 shift = 0x1.8p23f;
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    union { f32 value; uint32_t bits; } sum = {x * 0x1.715476p0f + shift}, power;
    const f32 n = sum.value - shift;
    const f32 r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
    power.bits = (sum.bits + 127u) << 23;

    f32 series = 1.0f / 5040;
    series = series * r + 1.0f / 720;
    series = series * r + 1.0f / 120;
    series = series * r + 1.0f / 24;
    series = series * r + 1.0f / 6;
    series = series * r + 1.0f / 2;
    series = series * r + 1.0f;
    series = series * r + 1.0f;
    return series * power.value;
}

static inline f64 exp_f64(f64 x)
{
    const f64 shift = 0x1.8p52;
    x = x < -708.0 ? -708.0 : x;
    x = x > 709.0 ? 709.0 : x;
    union { f64 value; uint64_t bits; } sum = {x * 0x1.71547652b82fep0 + shift}, power;
    const f64 n = sum.value - shift;
    const f64 r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
    power.bits = (sum.bits + 1023u) << 52;

    f64 series = 1.0 / 6227020800;
    series = series * r + 1.0 / 479001600;
    series = series * r + 1.0 / 39916800;
    series = series * r + 1.0 / 3628800;
    series = series * r + 1.0 / 362880;
    series = series * r + 1.0 / 40320;
    series = series * r + 1.0 / 5040;
    series = series * r + 1.0 / 720;
    series = series * r + 1.0 / 120;
    series = series * r + 1.0 / 24;
    series = series * r + 1.0 / 6;
    series = series * r + 1.0 / 2;
    series = series * r + 1.0;
    series = series * r + 1.0;
    return series * power.value;
}

#define EXP(x) _Generic((x), f32: exp_f32, f64: exp_f64)(x)

static inline elem sigmoid(elem x) { return 1 / (1 + EXP(-x)); }

#endif
