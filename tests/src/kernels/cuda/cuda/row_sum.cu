// The sum of each row, four elements at a time. A block takes a row.
#include "reduce.cuh"

extern "C" __global__ void row_sum(const float* x, float* sums, unsigned cols) {
    const float* row = x + size_t(blockIdx.x) * cols;

    float partial[4] = {};
    unsigned i = threadIdx.x;
    for (; i + 3 * blockDim.x < cols; i += 4 * blockDim.x) {
        for (unsigned part = 0; part < 4; part++) {
            partial[part] += row[i + part * blockDim.x];
        }
    }
    for (; i < cols; i += blockDim.x) {
        partial[0] += row[i];
    }
    const float sum = block_reduce<Sum>((partial[0] + partial[1]) + (partial[2] + partial[3]));
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = sum;
    }
}
