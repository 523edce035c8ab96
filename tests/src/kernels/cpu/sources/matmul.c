/*
 * C = A B, row-major: A is rows x depth, B is depth x cols.
 *
 *   ELEM  the elements of A and B: f32, f64 or i8
 *   ACC   what they are summed in, the elements of C: f32, f64 or i32
 *   TILE  the edge of the blocks that are packed, a multiple of the register block
 *
 * Blocks of A and B are copied into panels in the order in which the inner loops read them, filled up with zeros at
 * the edges, so that the inner loops have fixed trip counts and no conditions. A block of MR x NR sums stays in
 * registers over the depth of a panel.
 */
#include "common.h"

#ifndef ACC
#define ACC ELEM
#endif
typedef ACC acc;

enum { MR = 4, NR = 64 / sizeof(acc), A_PANELS = TILE / MR, B_PANELS = TILE / NR };
_Static_assert(TILE % MR == 0 && TILE % NR == 0, "a block is a whole number of register blocks");

typedef elem a_panel[TILE][MR];
typedef elem b_panel[TILE][NR];

/* Panel p holds rows p * MR .. of the block, one column after the other. */
static void pack_a(a_panel panels[A_PANELS], const elem *restrict a, size_t stride, size_t rows, size_t depth)
{
    for (size_t p = 0; p < A_PANELS; p++)
        for (size_t k = 0; k < TILE; k++)
            for (size_t i = 0; i < MR; i++) {
                const size_t row = p * MR + i;
                panels[p][k][i] = row < rows && k < depth ? a[row * stride + k] : 0;
            }
}

/* Panel p holds columns p * NR .. of the block, one row after the other. */
static void pack_b(b_panel panels[B_PANELS], const elem *restrict b, size_t stride, size_t depth, size_t cols)
{
    for (size_t p = 0; p < B_PANELS; p++) {
        const size_t first = p * NR;
        const size_t width = first < cols ? smaller(cols - first, NR) : 0;
        for (size_t k = 0; k < TILE; k++) {
            const elem *restrict row = b + k * stride + first;
            if (k < depth && width == NR)
                for (size_t j = 0; j < NR; j++)
                    panels[p][k][j] = row[j];
            else
                for (size_t j = 0; j < NR; j++)
                    panels[p][k][j] = k < depth && j < width ? row[j] : 0;
        }
    }
}

/* Adds the product of two panels to what is inside `rows` x `cols` of c. */
static void multiply_panels(const a_panel a, const b_panel b, acc *restrict c, size_t stride, size_t rows, size_t cols)
{
    acc sums[MR][NR] = {{0}};
    for (size_t k = 0; k < TILE; k++)
        for (size_t i = 0; i < MR; i++)
            for (size_t j = 0; j < NR; j++)
                sums[i][j] += (acc)a[k][i] * (acc)b[k][j];

    if (rows >= MR && cols >= NR)
        for (size_t i = 0; i < MR; i++)
            for (size_t j = 0; j < NR; j++)
                c[i * stride + j] += sums[i][j];
    else
        for (size_t i = 0; i < smaller(rows, MR); i++)
            for (size_t j = 0; j < smaller(cols, NR); j++)
                c[i * stride + j] += sums[i][j];
}

ENTRY void matmul(const elem *restrict a, const elem *restrict b, acc *restrict c, size_t rows, size_t depth,
                  size_t cols)
{
    _Alignas(64) a_panel a_panels[A_PANELS];
    _Alignas(64) b_panel b_panels[B_PANELS];

    for (size_t i = 0; i < rows * cols; i++)
        c[i] = 0;
    for (size_t col = 0; col < cols; col += TILE)
        for (size_t k = 0; k < depth; k += TILE) {
            pack_b(b_panels, b + k * cols + col, cols, depth - k, cols - col);
            for (size_t row = 0; row < rows; row += TILE) {
                pack_a(a_panels, a + row * depth + k, depth, rows - row, depth - k);
                for (size_t i = row; i < smaller(row + TILE, rows); i += MR)
                    for (size_t j = col; j < smaller(col + TILE, cols); j += NR)
                        multiply_panels(a_panels[(i - row) / MR], b_panels[(j - col) / NR], c + i * cols + j, cols,
                                        rows - i, cols - j);
            }
        }
}
