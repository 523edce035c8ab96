// c = a b, a tile of c for each block, which is TILE x TILE threads.
template <unsigned TILE, class T>
__global__ void matmul(const T* a, const T* b, T* c, unsigned rows, unsigned depth, unsigned cols) {
    __shared__ T of_a[TILE][TILE];
    __shared__ T of_b[TILE][TILE];
    const unsigned x = threadIdx.x;
    const unsigned y = threadIdx.y;
    const unsigned row = blockIdx.y * TILE + y;
    const unsigned col = blockIdx.x * TILE + x;

    T sum = 0;
    for (unsigned start = 0; start < depth; start += TILE) {
        of_a[y][x] = row < rows && start + x < depth ? a[size_t(row) * depth + start + x] : T(0);
        of_b[y][x] = start + y < depth && col < cols ? b[size_t(start + y) * cols + col] : T(0);
        __syncthreads();
        for (unsigned k = 0; k < TILE; k++) {
            sum += of_a[y][k] * of_b[k][x];
        }
        __syncthreads();  // before the next tile takes the place of this one
    }
    if (row < rows && col < cols) {
        c[size_t(row) * cols + col] = sum;
    }
}
