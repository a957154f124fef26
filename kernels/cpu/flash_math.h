/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of vectors, for flash_ops.h, which says what must be there before. */

typedef int32_t ivec __attribute__((vector_size(sizeof(vec))));
typedef uint32_t uvec __attribute__((vector_size(sizeof(vec))));
typedef float loose_vec __attribute__((vector_size(sizeof(vec)), aligned(4), may_alias));

enum { VEC = sizeof(vec) / sizeof(float) };

RI_INLINE TARGET vec load(const float *p)
{
    return *(const loose_vec *)p;
}

RI_INLINE TARGET void store(float *p, vec x)
{
    *(loose_vec *)p = x;
}

/* gcc 12's analyzer takes the type of a vector's elements for one of a few bits. */
RI_ANALYZER_IGNORE("-Wanalyzer-shift-count-overflow")
/* 2^x to 1e-7, for x < 127.5: 0 from -126.5 down, NaN for NaN.  Adding 1.5 * 2^23 + 127 leaves the
 * nearest whole number n in the last bits, where a shift makes the exponent of 2^n of it, which is that of
 * zero for n = -127; then a polynomial for 2^(x - n), |x - n| <= 1/2. */
RI_INLINE TARGET vec exp2_vec(vec x)
{
    vec shifted, r, y, least = {0};

    least -= 127.0f;
    x = vec_max(least, x); /* x where that is NaN */
    shifted = x + 12583039.0f;
    r = x - (shifted - 12583039.0f);
    y = 0.000154614449f * r + 0.0013400428f;
    y = y * r + 0.00961805694f;
    y = y * r + 0.0555032715f;
    y = y * r + 0.240226507f;
    y = y * r + 0.693147182f;
    y = y * r + 1.0f;
    return y * (vec)((ivec)shifted << 23);
}

RI_INLINE TARGET vec choose(ivec mask, vec a, vec b)
{
    return (vec)(((ivec)a & mask) | ((ivec)b & ~mask));
}

/* tanh x to two units in the last place, of small x too; NaN for NaN.  Below 0.625 an odd polynomial through
 * x; above it 1 - 2 / (e^2x + 1), which is 1 from 10 on. */
RI_INLINE TARGET vec tanh_vec(vec x)
{
    ivec sign = (ivec)x & INT32_MIN;
    vec size = (vec)((ivec)x ^ sign), square = size * size, small, large, ten = {0};

    ten += 10.0f;
    small = -0.00609671418f * square + 0.0209971797f;
    small = small * square - 0.0538509078f;
    small = small * square + 0.133327693f;
    small = small * square - 0.333333284f;
    small = small * square * size + size;
    large = choose(size > 10.0f, ten, size);
    large = 1.0f - 2.0f / (exp2_vec(large * 2.88539008f) + 1.0f);
    return (vec)((ivec)choose(size < 0.625f, small, large) | sign);
}

/* Positions of keys j to j + VEC of a block. */
RI_INLINE TARGET uvec key_positions(const struct ri_flash_drop *drop, int j)
{
    uvec y;

    for (int i = 0; i < VEC; i++)
        y[i] = drop->k_position + (uint32_t)(j + i) * drop->k_step;
    return y;
}

/* Ones where ri_dropout_word of query row r of a block and keys y is no less than the threshold. */
RI_INLINE TARGET ivec kept(const struct ri_flash_drop *drop, int r, uvec y)
{
    uint32_t key = (uint32_t)drop->stream, query = drop->q_position + (uint32_t)r * drop->q_step;
    uvec x = (y ^ y) + (query ^ (uint32_t)(drop->stream >> 32));

    for (int round = 0; round < RI_DROPOUT_ROUNDS; round++) {
        wide_vec even = times_multiplier((wide_vec)x), odd = times_multiplier((wide_vec)x >> 32);
        uvec high = (uvec)((even >> 32) | (odd >> 32 << 32));

        x = high ^ key ^ y;
        y = (uvec)((even << 32 >> 32) | (odd << 32));
        key += RI_DROPOUT_WEYL;
    }
    return (ivec)(x >= drop->threshold);
}
RI_ANALYZER_RESUME
