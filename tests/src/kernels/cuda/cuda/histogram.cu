// How often each byte is there, and where each would begin if they were sorted: a histogram and its prefix
// sum.
const unsigned BINS = 256;

// Adds to counts. Each block counts in shared memory first.
extern "C" __global__ void histogram(const unsigned char* bytes, unsigned* counts, unsigned count) {
    __shared__ unsigned of_block[BINS];
    for (unsigned bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
        of_block[bin] = 0;
    }
    __syncthreads();
    const unsigned step = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        atomicAdd(&of_block[bytes[i]], 1u);
    }
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
        if (of_block[bin] > 0) {
            atomicAdd(&counts[bin], of_block[bin]);
        }
    }
}

// starts[i] = counts[0] + ... + counts[i - 1]. One block of whole warps, which goes from chunk to chunk.
extern "C" __global__ void prefix_sum(const unsigned* counts, unsigned* starts, unsigned count) {
    __shared__ unsigned of_warps[32];
    const unsigned lane = threadIdx.x % 32;
    const unsigned warp = threadIdx.x / 32;

    unsigned before = 0;  // the sum of the chunks that are done
    for (unsigned chunk = 0; chunk < count; chunk += blockDim.x) {
        const unsigned i = chunk + threadIdx.x;
        const unsigned value = i < count ? counts[i] : 0;
        unsigned sum = value;  // of this lane and those before it
        for (unsigned distance = 1; distance < 32; distance *= 2) {
            const unsigned other = __shfl_up_sync(0xffffffffu, sum, distance);
            sum += lane >= distance ? other : 0;
        }
        if (lane == 31) {
            of_warps[warp] = sum;
        }
        __syncthreads();

        unsigned of_chunk = 0;
        for (unsigned w = 0; w < blockDim.x / 32; w++) {
            sum += w < warp ? of_warps[w] : 0;
            of_chunk += of_warps[w];
        }
        if (i < count) {
            starts[i] = before + sum - value;
        }
        before += of_chunk;
        __syncthreads();  // before the next chunk takes the place of this one
    }
}
