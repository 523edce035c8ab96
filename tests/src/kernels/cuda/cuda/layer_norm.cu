// Each row, brought to mean 0 and deviation 1, times gamma, plus beta. A block takes a row.
#include "reduce.cuh"

extern "C" __global__ void layer_norm(
    const float* x, const float* gamma, const float* beta, float* y, unsigned cols, float epsilon
) {
    const float* row = x + size_t(blockIdx.x) * cols;
    float* out = y + size_t(blockIdx.x) * cols;

    float sum = 0.0f;
    for (unsigned i = threadIdx.x; i < cols; i += blockDim.x) {
        sum += row[i];
    }
    const float mean = block_reduce<Sum>(sum) / cols;

    float squares = 0.0f;
    for (unsigned i = threadIdx.x; i < cols; i += blockDim.x) {
        const float distance = row[i] - mean;
        squares += distance * distance;
    }
    const float factor = rsqrtf(block_reduce<Sum>(squares) / cols + epsilon);

    for (unsigned i = threadIdx.x; i < cols; i += blockDim.x) {
        out[i] = (row[i] - mean) * factor * gamma[i] + beta[i];
    }
}
