// b = a transposed, through a tile in shared memory, so that a warp reads and writes neighbours.
// A block of 32 x 8 threads takes a tile.
const unsigned TILE = 32;

extern "C" __global__ void transpose(const float* a, float* b, unsigned rows, unsigned cols) {
    __shared__ float tile[TILE][TILE + 1];  // so that a column of it is in different banks
    const unsigned x = threadIdx.x;
    const unsigned top = blockIdx.y * TILE;
    const unsigned left = blockIdx.x * TILE;

    for (unsigned y = threadIdx.y; y < TILE; y += blockDim.y) {
        if (top + y < rows && left + x < cols) {
            tile[y][x] = a[size_t(top + y) * cols + left + x];
        }
    }
    __syncthreads();
    for (unsigned y = threadIdx.y; y < TILE; y += blockDim.y) {
        if (left + y < cols && top + x < rows) {
            b[size_t(left + y) * rows + top + x] = tile[x][y];
        }
    }
}
