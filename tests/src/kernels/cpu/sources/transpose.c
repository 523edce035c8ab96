/*
 * B = A^T, by blocks of TILE x TILE that go through a buffer, so that memory is read and written a row at a time.
 */
#include "common.h"

static void transpose_block(const elem *restrict a, elem *restrict b, size_t a_stride, size_t b_stride)
{
    _Alignas(64) elem block[TILE][TILE];
    for (size_t i = 0; i < TILE; i++)
        for (size_t j = 0; j < TILE; j++)
            block[j][i] = a[i * a_stride + j];
    for (size_t j = 0; j < TILE; j++)
        for (size_t i = 0; i < TILE; i++)
            b[j * b_stride + i] = block[j][i];
}

ENTRY void transpose(const elem *restrict a, elem *restrict b, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i += TILE)
        for (size_t j = 0; j < cols; j += TILE) {
            const size_t height = smaller(TILE, rows - i), width = smaller(TILE, cols - j);
            const elem *restrict from = a + i * cols + j;
            elem *restrict to = b + j * rows + i;
            if (height == TILE && width == TILE)
                transpose_block(from, to, cols, rows);
            else
                for (size_t y = 0; y < height; y++)
                    for (size_t x = 0; x < width; x++)
                        to[x * rows + y] = from[y * cols + x];
        }
}
