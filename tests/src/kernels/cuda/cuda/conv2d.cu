// Convolution with SIZE x SIZE filters, zeros around the image, and a bias. A block of TILE x TILE threads
// takes a tile of one plane of the output; blockIdx.z is the plane.
const unsigned TILE = 16;

template <unsigned SIZE>
__global__ void conv2d(
    const float* image, const float* filters, const float* bias, float* out, unsigned planes, unsigned height,
    unsigned width
) {
    const unsigned SEEN = TILE + SIZE - 1;
    __shared__ float seen[SEEN][SEEN];
    const unsigned top = blockIdx.y * TILE;
    const unsigned left = blockIdx.x * TILE;
    const unsigned y = top + threadIdx.y;
    const unsigned x = left + threadIdx.x;

    float sum = bias[blockIdx.z];
    for (unsigned plane = 0; plane < planes; plane++) {
        __syncthreads();  // the last plane was read
        for (unsigned i = threadIdx.y * TILE + threadIdx.x; i < SEEN * SEEN; i += TILE * TILE) {
            // Shifted by half a filter; before the image, this wraps around and so is beyond it.
            const unsigned from_y = top + i / SEEN - SIZE / 2;
            const unsigned from_x = left + i % SEEN - SIZE / 2;
            const bool is_inside = from_y < height && from_x < width;
            seen[i / SEEN][i % SEEN] =
                is_inside ? image[(size_t(plane) * height + from_y) * width + from_x] : 0.0f;
        }
        __syncthreads();

        const float* filter = filters + size_t(blockIdx.z * planes + plane) * SIZE * SIZE;
        for (unsigned dy = 0; dy < SIZE; dy++) {
            for (unsigned dx = 0; dx < SIZE; dx++) {
                sum += filter[dy * SIZE + dx] * seen[threadIdx.y + dy][threadIdx.x + dx];
            }
        }
    }
    if (y < height && x < width) {
        out[(size_t(blockIdx.z) * height + y) * width + x] = sum;
    }
}
