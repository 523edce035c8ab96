// To bytes and back, with a scale for each GROUP numbers. A block of GROUP threads takes a group; the last
// may be short.
const unsigned GROUP = 128;

extern "C" __global__ void quantise(const float* x, signed char* q, float* scales, unsigned count) {
    __shared__ float of_warps[GROUP / 32];
    const unsigned i = blockIdx.x * GROUP + threadIdx.x;
    const float value = i < count ? x[i] : 0.0f;

    float largest = fabsf(value);
    for (int distance = 16; distance > 0; distance /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
    }
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = largest;
    }
    __syncthreads();
    for (unsigned warp = 0; warp < GROUP / 32; warp++) {
        largest = fmaxf(largest, of_warps[warp]);
    }

    const float factor = largest > 0.0f ? 127.0f / largest : 0.0f;
    if (i < count) {
        q[i] = static_cast<signed char>(rintf(value * factor));
    }
    if (threadIdx.x == 0) {
        scales[blockIdx.x] = largest / 127.0f;
    }
}

extern "C" __global__ void dequantise(const signed char* q, const float* scales, float* x, unsigned count) {
    const unsigned i = blockIdx.x * GROUP + threadIdx.x;
    if (i < count) {
        x[i] = q[i] * scales[blockIdx.x];
    }
}
