// Adds each row to the residual, and divides the sum by its root mean square. A block takes a row.
#include "reduce.cuh"

extern "C" __global__ void add_rms_norm(
    const float* x, float* residual, const float* gamma, float* y, unsigned cols, float epsilon
) {
    const size_t start = size_t(blockIdx.x) * cols;

    float squares = 0.0f;
    for (unsigned i = threadIdx.x; i < cols; i += blockDim.x) {
        const float sum = x[start + i] + residual[start + i];
        residual[start + i] = sum;
        squares += sum * sum;
    }
    const float factor = rsqrtf(block_reduce<Sum>(squares) / cols + epsilon);

    // Each thread reads what it wrote itself.
    for (unsigned i = threadIdx.x; i < cols; i += blockDim.x) {
        y[start + i] = residual[start + i] * factor * gamma[i];
    }
}
