/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of flash, written in the compiler's vector extension.  Included once by each
 * flash_<isa>.c, behind
 *   TARGET        function attributes that switch the instruction set on
 *   TILE_VECS     vectors in a row of the register tile, at most 4: six rows of them, a row of b
 *                 and one more vector must fit the register file
 *   vec           the vector of floats, and vec_max and reduce_max of it
 *   wide_vec      as many bytes of uint64_t, and times_multiplier of it: RI_DROPOUT_MULTIPLIER times the lower
 *                 32 bits of each
 * A product and a sum in one expression become one fused instruction where the target has it. */

#include "kernels/cpu/flash_math.h"

enum { TILE_ROWS = 6 };

/* One row of the register tile.  Only the first n vectors are used; n is a constant where it
 * counts. */
struct row {
    vec v0, v1, v2, v3;
};

RI_INLINE TARGET struct row row_load(int n, const float *p)
{
    struct row x = {load(p), {0}, {0}, {0}};

    if (n > 1)
        x.v1 = load(p + VEC);
    if (n > 2)
        x.v2 = load(p + 2 * VEC);
    if (n > 3)
        x.v3 = load(p + 3 * VEC);
    return x;
}

RI_INLINE TARGET void row_store(int n, float *p, struct row x)
{
    store(p, x.v0);
    if (n > 1)
        store(p + VEC, x.v1);
    if (n > 2)
        store(p + 2 * VEC, x.v2);
    if (n > 3)
        store(p + 3 * VEC, x.v3);
}

RI_INLINE TARGET struct row row_fma(int n, struct row c, float a, struct row b)
{
    c.v0 = a * b.v0 + c.v0;
    if (n > 1)
        c.v1 = a * b.v1 + c.v1;
    if (n > 2)
        c.v2 = a * b.v2 + c.v2;
    if (n > 3)
        c.v3 = a * b.v3 + c.v3;
    return c;
}

/* A register tile. */
struct rows {
    struct row x0, x1, x2, x3, x4, x5;
};

/* One more d: a at rows 0 and 3 of the tile, whose rows are `row` apart. */
RI_INLINE TARGET struct rows step(int m, int n, struct rows x, int64_t row, const float *a, const float *a3,
                                  const float *b)
{
    struct row y = row_load(n, b);

    x.x0 = row_fma(n, x.x0, a[0], y);
    x.x1 = m > 1 ? row_fma(n, x.x1, a[row], y) : x.x1;
    x.x2 = m > 2 ? row_fma(n, x.x2, a[2 * row], y) : x.x2;
    x.x3 = m > 3 ? row_fma(n, x.x3, a3[0], y) : x.x3;
    x.x4 = m > 4 ? row_fma(n, x.x4, a3[row], y) : x.x4;
    x.x5 = m > 5 ? row_fma(n, x.x5, a3[2 * row], y) : x.x5;
    return x;
}

RI_INLINE TARGET struct rows load_rows(int m, int n, const float *c, int64_t c_row)
{
    struct rows x = {row_load(n, c), {{0}, {0}, {0}, {0}}, {{0}, {0}, {0}, {0}}, {{0}, {0}, {0}, {0}},
                     {{0}, {0}, {0}, {0}}, {{0}, {0}, {0}, {0}}};

    x.x1 = m > 1 ? row_load(n, c + c_row) : x.x1;
    x.x2 = m > 2 ? row_load(n, c + 2 * c_row) : x.x2;
    x.x3 = m > 3 ? row_load(n, c + 3 * c_row) : x.x3;
    x.x4 = m > 4 ? row_load(n, c + 4 * c_row) : x.x4;
    x.x5 = m > 5 ? row_load(n, c + 5 * c_row) : x.x5;
    return x;
}

RI_INLINE TARGET void store_rows(int m, int n, float *c, int64_t c_row, const struct rows *x)
{
    row_store(n, c, x->x0);
    if (m > 1)
        row_store(n, c + c_row, x->x1);
    if (m > 2)
        row_store(n, c + 2 * c_row, x->x2);
    if (m > 3)
        row_store(n, c + 3 * c_row, x->x3);
    if (m > 4)
        row_store(n, c + 4 * c_row, x->x4);
    if (m > 5)
        row_store(n, c + 5 * c_row, x->x5);
}

/* c[0..m)[0..n vectors) = or += a b over first <= d < end.  m, n and columns are constants in every call.
 * columns: a lies in columns, RI_FLASH_KEYS apart, and not in rows. */
RI_INLINE TARGET void tile(int m, int n, int columns, const struct ri_flash_gemm *g, int r, int col, int first,
                           int end, int add)
{
    const int64_t a_row = columns ? 1 : g->a_row, a_col = columns ? RI_FLASH_KEYS : 1, b_row = g->b_row;
    const float *a = g->a + r * a_row + first * a_col, *a3 = a + 3 * a_row;
    const float *b = g->b + first * b_row + col;
    float *c = g->c + (int64_t)r * g->c_row + col;
    struct rows x = {{{0}, {0}, {0}, {0}}, {{0}, {0}, {0}, {0}}, {{0}, {0}, {0}, {0}}, {{0}, {0}, {0}, {0}},
                     {{0}, {0}, {0}, {0}}, {{0}, {0}, {0}, {0}}};

    if (add)
        x = load_rows(m, n, c, g->c_row);
    for (; first + 4 <= end; first += 4) {
        x = step(m, n, x, a_row, a, a3, b);
        x = step(m, n, x, a_row, a + a_col, a3 + a_col, b + b_row);
        x = step(m, n, x, a_row, a + 2 * a_col, a3 + 2 * a_col, b + 2 * b_row);
        x = step(m, n, x, a_row, a + 3 * a_col, a3 + 3 * a_col, b + 3 * b_row);
        a += 4 * a_col;
        a3 += 4 * a_col;
        b += 4 * b_row;
    }
    for (; first < end; first++) {
        x = step(m, n, x, a_row, a, a3, b);
        a += a_col;
        a3 += a_col;
        b += b_row;
    }
    store_rows(m, n, c, g->c_row, &x);
}

RI_INLINE TARGET int least(int a, int b)
{
    return a < b ? a : b;
}

RI_INLINE TARGET int most(int a, int b)
{
    return a > b ? a : b;
}

/* m rows from r on: together over what all of them may read, then each alone over the rest of its
 * own. Where they have nothing in common, each is done alone in two pieces that meet anywhere. */
RI_INLINE TARGET void group(int m, int n, int columns, const struct ri_flash_gemm *g, int r, int col)
{
    int first = most(0, r + m - 1 + g->lo), end = least(g->depth, r + g->hi + 1);

    if (first < end)
        tile(m, n, columns, g, r, col, first, end, g->add);
    else
        end = first;
    if (m == 1 || (r + m - 1 + g->lo <= 0 && r + g->hi >= g->depth - 1))
        return;
    for (int i = r; i < r + m; i++) {
        int own_first = most(0, i + g->lo), own_end = least(g->depth, i + g->hi + 1);

        if (own_first < least(first, own_end))
            tile(1, n, columns, g, i, col, own_first, least(first, own_end), 1);
        if (most(end, own_first) < own_end)
            tile(1, n, columns, g, i, col, most(end, own_first), own_end, 1);
    }
}

/* m rows, all columns: in the register tile's width, then in lesser ones.  Rows come first, since b is what the
 * first cache holds. */
RI_INLINE TARGET void across(int m, int columns, const struct ri_flash_gemm *g, int r)
{
    int col = 0;

    for (; col + TILE_VECS * VEC <= g->cols; col += TILE_VECS * VEC)
        group(m, TILE_VECS, columns, g, r, col);
    for (; TILE_VECS > 2 && col + 2 * VEC <= g->cols; col += 2 * VEC)
        group(m, 2, columns, g, r, col);
    for (; col < g->cols; col += VEC)
        group(m, 1, columns, g, r, col);
}

RI_INLINE TARGET void down(int columns, const struct ri_flash_gemm *g)
{
    int r = 0;

    for (; r + TILE_ROWS <= g->rows; r += TILE_ROWS)
        across(TILE_ROWS, columns, g, r);
    if (r + 4 <= g->rows) {
        across(4, columns, g, r);
        r += 4;
    }
    if (r + 2 <= g->rows) {
        across(2, columns, g, r);
        r += 2;
    }
    if (r < g->rows)
        across(1, columns, g, r);
}

TARGET static void gemm(const struct ri_flash_gemm *g)
{
    if (g->a_row)
        down(0, g);
    else
        down(1, g);
}

RI_INLINE TARGET float softmax_row(float *s, float top, vec *sum)
{
    vec highest = load(s), added = {0};
    float base;

    for (int j = VEC; j < RI_FLASH_KEYS; j += VEC)
        highest = vec_max(highest, load(s + j));
    base = reduce_max(highest);
    top = base > top ? base : top;
    base = top == -INFINITY ? 0 : top; /* -inf - -inf is not a number */
    for (int j = 0; j < RI_FLASH_KEYS; j += VEC) {
        vec weight = exp2_vec(load(s + j) - base);

        added += weight;
        store(s + j, weight);
    }
    *sum = added;
    return top;
}

TARGET static void softmax(float *s, float *top, float *sum, float *o, int rows, int cols)
{
    for (int r = 0; r < rows; r++) {
        vec added, before = load(sum + r * RI_FLASH_PAD);
        float risen = softmax_row(s + r * RI_FLASH_KEYS, top[r], &added);

        if (risen > top[r] && top[r] != -INFINITY) {
            float factor = exp2f(top[r] - risen);

            before *= factor;
            for (int d = 0; d < cols; d += VEC)
                store(o + (int64_t)r * cols + d, factor * load(o + (int64_t)r * cols + d));
        }
        store(sum + r * RI_FLASH_PAD, before + added);
        top[r] = risen;
    }
}

TARGET static void cap(float *s, float bound, int rows)
{
    float inverse = 1 / bound;

    for (int i = 0; i < rows * RI_FLASH_KEYS; i += VEC)
        store(s + i, bound * tanh_vec(inverse * load(s + i)));
}

TARGET static void drop(float *s, const struct ri_flash_drop *drop, int rows)
{
    for (int j = 0; j < RI_FLASH_KEYS; j += VEC) {
        uvec keys = key_positions(drop, j);

        for (int r = 0; r < rows; r++) {
            float *at = s + r * RI_FLASH_KEYS + j;

            store(at, (vec)((ivec)load(at) & kept(drop, r, keys)));
        }
    }
}

/* Row r, with what it needs as constants: no test in the loop. */
RI_INLINE TARGET void gradients_row(const struct ri_flash_gradients *g, int r, int capped, int dropped)
{
    float *p = g->p + r * RI_FLASH_KEYS, *dp = g->dp + r * RI_FLASH_KEYS;
    float lse = g->lse[r], delta = g->delta[r], bound = g->cap; /* which a store could change, for all gcc knows */
    float inverse = capped ? 1 / bound : 0;

    for (int j = 0; j < RI_FLASH_KEYS; j += VEC) {
        vec score = load(p + j), reached = load(dp + j), slope = {0}, weight, kept_weight;

        if (capped) {
            vec bent = tanh_vec(inverse * score);

            score = bound * bent;
            slope = 1.0f - bent * bent;
        }
        weight = kept_weight = exp2_vec(score - lse);
        if (dropped) {
            ivec mask = kept(g->drop, r, key_positions(g->drop, j));

            kept_weight = (vec)((ivec)weight & mask);
            reached = (vec)((ivec)reached & mask);
        }
        store(p + j, kept_weight);
        weight *= reached - delta;
        store(dp + j, capped ? weight * slope : weight);
    }
}

TARGET static void gradients(const struct ri_flash_gradients *g)
{
    for (int r = 0; r < g->rows; r++) {
        if (g->lse[r] == INFINITY) {
            memset(g->p + r * RI_FLASH_KEYS, 0, RI_FLASH_KEYS * sizeof *g->p);
            memset(g->dp + r * RI_FLASH_KEYS, 0, RI_FLASH_KEYS * sizeof *g->dp);
        } else if (g->cap == 0 && !g->drop)
            gradients_row(g, r, 0, 0);
        else if (!g->drop)
            gradients_row(g, r, 1, 0);
        else if (g->cap == 0)
            gradients_row(g, r, 0, 1);
        else
            gradients_row(g, r, 1, 1);
    }
}

TARGET static void scale_rows(float *dst, int row, const float *src, int64_t stride, int count,
                              int dim, float factor)
{
    for (int i = 0; i < count; i++, dst += row, src += stride) {
        int d = 0;

        for (; d + VEC <= dim; d += VEC)
            store(dst + d, factor * load(src + d));
        for (; d < dim; d++)
            dst[d] = factor * src[d];
        for (; d < row; d++)
            dst[d] = 0;
    }
}

TARGET static void add_rows(float *acc, int64_t stride, const float *src, int row, int count,
                            int dim, float factor)
{
    for (int i = 0; i < count; i++, acc += stride, src += row) {
        int d = 0;

        for (; d + VEC <= dim; d += VEC)
            store(acc + d, factor * load(src + d) + load(acc + d));
        for (; d < dim; d++)
            acc[d] += factor * src[d];
    }
}
