// Attention without the matrix of scores: keys and values go by in tiles, and the softmax is corrected as it
// grows. A warp takes a query; its lanes take a key each while it scores, and DIM / 32 numbers each while it
// sums up values.
const unsigned WARPS = 4;
const unsigned TILE = 32;
const unsigned ALL = 0xffffffffu;

template <unsigned DIM, bool CAUSAL>
__global__ void attention(
    const float* q, const float* k, const float* v, float* out, unsigned length, float scale
) {
    __shared__ float query[WARPS][DIM];
    __shared__ float keys[TILE][DIM + 1];  // so that the lanes, a row each, read from different banks
    __shared__ float values[TILE][DIM];
    const unsigned lane = threadIdx.x % 32;
    const unsigned warp = threadIdx.x / 32;
    const unsigned position = blockIdx.x * WARPS + warp;

    for (unsigned d = lane; d < DIM; d += 32) {
        query[warp][d] = position < length ? q[size_t(position) * DIM + d] * scale : 0.0f;
    }

    const float nothing = __int_as_float(0xff800000);  // minus infinity
    float largest = nothing;
    float total = 0.0f;
    float sums[DIM / 32] = {};

    // The last query of the block sees the most keys.
    unsigned end = length;
    if (CAUSAL && (blockIdx.x + 1) * WARPS < length) {
        end = (blockIdx.x + 1) * WARPS;
    }
    for (unsigned start = 0; start < end; start += TILE) {
        __syncthreads();  // the last tile was read
        for (unsigned i = threadIdx.x; i < TILE * DIM; i += blockDim.x) {
            const unsigned row = start + i / DIM;
            keys[i / DIM][i % DIM] = row < length ? k[size_t(row) * DIM + i % DIM] : 0.0f;
            values[i / DIM][i % DIM] = row < length ? v[size_t(row) * DIM + i % DIM] : 0.0f;
        }
        __syncthreads();

        const unsigned key = start + lane;
        float score = nothing;
        if (key < length && (!CAUSAL || key <= position)) {
            score = 0.0f;
            for (unsigned d = 0; d < DIM; d++) {
                score += query[warp][d] * keys[lane][d];
            }
        }

        // Every query sees the first key, so this is a number from the first tile on.
        float now = fmaxf(largest, score);
        for (int distance = 16; distance > 0; distance /= 2) {
            now = fmaxf(now, __shfl_xor_sync(ALL, now, distance));
        }
        const float correction = expf(largest - now);
        const float weight = expf(score - now);
        float weights = weight;
        for (int distance = 16; distance > 0; distance /= 2) {
            weights += __shfl_xor_sync(ALL, weights, distance);
        }
        largest = now;
        total = total * correction + weights;

        for (unsigned part = 0; part < DIM / 32; part++) {
            sums[part] *= correction;
        }
        for (int other = 0; other < 32; other++) {
            const float of_other = __shfl_sync(ALL, weight, other);
            for (unsigned part = 0; part < DIM / 32; part++) {
                sums[part] += of_other * values[other][part * 32 + lane];
            }
        }
    }

    if (position < length) {
        for (unsigned part = 0; part < DIM / 32; part++) {
            out[size_t(position) * DIM + part * 32 + lane] = sums[part] / total;
        }
    }
}
