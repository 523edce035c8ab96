// The softmax of each row. A block takes a row.
#include "reduce.cuh"

extern "C" __global__ void softmax(const float* x, float* y, unsigned cols) {
    const float* row = x + size_t(blockIdx.x) * cols;
    float* out = y + size_t(blockIdx.x) * cols;

    float largest = Largest::neutral();
    for (unsigned i = threadIdx.x; i < cols; i += blockDim.x) {
        largest = fmaxf(largest, row[i]);
    }
    largest = block_reduce<Largest>(largest);

    float total = 0.0f;
    for (unsigned i = threadIdx.x; i < cols; i += blockDim.x) {
        total += expf(row[i] - largest);
    }
    total = block_reduce<Sum>(total);

    for (unsigned i = threadIdx.x; i < cols; i += blockDim.x) {
        out[i] = expf(row[i] - largest) / total;
    }
}
