// What the threads of a block do together. A block is one row of whole warps, and all of its threads take
// part.
#pragma once

#include "warp.cuh"

// Every thread gets the result over all threads.
template <class Operation>
__device__ float block_reduce(float value) {
    __shared__ float of_warps[32];
    const unsigned lane = threadIdx.x % 32;
    const unsigned warp = threadIdx.x / 32;

    value = warp_reduce<Operation>(value);
    __syncthreads();  // what an earlier call left there was read
    if (lane == 0) {
        of_warps[warp] = value;
    }
    __syncthreads();
    return warp_reduce<Operation>(lane < blockDim.x / 32 ? of_warps[lane] : Operation::neutral());
}
