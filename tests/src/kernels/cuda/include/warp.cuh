// What the threads of a warp do together. All 32 take part.
#pragma once

struct Sum {
    static __device__ float neutral() { return 0.0f; }
    static __device__ float of(float a, float b) { return a + b; }
};

struct Largest {
    static __device__ float neutral() { return __int_as_float(0xff800000); }  // minus infinity
    static __device__ float of(float a, float b) { return fmaxf(a, b); }
};

// Every lane gets the result over all lanes.
template <class Operation>
__device__ float warp_reduce(float value) {
    for (int distance = 16; distance > 0; distance /= 2) {
        value = Operation::of(value, __shfl_xor_sync(0xffffffffu, value, distance));
    }
    return value;
}
