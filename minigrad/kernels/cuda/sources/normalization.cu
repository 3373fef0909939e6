// Layer normalization (Ba, Kiros and Hinton 2016, equation 4) and RMS normalization (Zhang and Sennrich 2019,
// equation 4), over rows. A row's 1 / sqrt(var + eps) and mean are stored for backward: the mean as two numbers,
// the second its rounding error, which matters if the deviations are much smaller than the mean.

#include "columns.cuh"
#include "rows.cuh"

#ifndef PARAMETER
#define PARAMETER SCALAR  // the type of weight and bias, which may be float with x of 16 bits
#endif

// Four elements of a weight or bias; `otherwise` if there is none.
__device__ inline void load_or(const PARAMETER* x, acc_t otherwise, index_t j, index_t left, acc_t out[4]) {
    if (x) load(x + j, left, out);
    for (int k = 0; k < 4 && !x; k++) out[k] = otherwise;
}

// 1 / sqrt(mean((x - centre - rest)**2) + eps) of a row. If squares overflow or underflow, x is divided by the
// row's largest element first.
__device__ inline acc_t inverse_root(
    const scalar_t* x, acc_t centre, acc_t rest, index_t size, acc_t eps, acc_t* scratch
) {
    acc_t squares = 0, largest = 0;
    for_each(x, size, [&](acc_t number) {
        const acc_t d = number - centre - rest;
        squares += d * d;
    });
    const acc_t mean = row_sum(squares, scratch) / size + eps;
    if (mean > (acc_t)1e-26 && mean < (acc_t)1e36) return 1 / sqrt(mean);
    for_each(x, size, [&](acc_t number) {
        const acc_t d = number - centre - rest;
        largest = Larger()(largest, d < 0 ? -d : d);
    });
    largest = row_max(largest, scratch);
    if (!(largest > 0 && largest < infinity())) return 1 / sqrt(mean);
    squares = 0;
    for_each(x, size, [&](acc_t number) {
        const acc_t d = (number - centre - rest) / largest;
        squares += d * d;
    });
    return 1 / sqrt(row_sum(squares, scratch) / size + eps / largest / largest) / largest;
}

// h = (x - mean) / sqrt(var + eps), y = h weight + bias; weight and bias may be null
extern "C" __global__ void layer_norm(
    const scalar_t* x, const PARAMETER* weight, const PARAMETER* bias, scalar_t* y, acc_t* mean, acc_t* inverse,
    index_t rows, index_t size, acc_t eps
) {
    __shared__ acc_t scratch[32];
    const index_t row = row_of_thread();
    if (row >= rows) return;
    x += row * size, y += row * size;

    acc_t total = 0, remainder = 0;
    for_each(x, size, [&](acc_t number) { total += number; });
    const acc_t centre = row_sum(total, scratch) / size;
    for_each(x, size, [&](acc_t number) { remainder += number - centre; });
    const acc_t rest = row_sum(remainder, scratch) / size;
    const acc_t scale = inverse_root(x, centre, rest, size, eps, scratch);

    by_fours(size, [&](index_t j, index_t left) {
        acc_t h[4], w[4], b[4];
        load(x + j, left, h);
        load_or(weight, 1, j, left, w);
        load_or(bias, 0, j, left, b);
        for (int k = 0; k < 4; k++) h[k] = (h[k] - centre - rest) * scale * w[k] + b[k];
        store(h, y + j, left);
    });
    if (threadIdx.x == 0) mean[2 * row] = centre, mean[2 * row + 1] = rest, inverse[row] = scale;
}

// with u = g weight: dx = (u - mean(u) - h mean(u h)) / sqrt(var + eps)
extern "C" __global__ void layer_norm_backward(
    const scalar_t* x, const PARAMETER* weight, const scalar_t* g, const acc_t* mean, const acc_t* inverse,
    scalar_t* dx, index_t rows, index_t size
) {
    __shared__ acc_t scratch[32];
    const index_t row = row_of_thread();
    if (row >= rows) return;
    x += row * size, g += row * size, dx += row * size;
    const acc_t centre = mean[2 * row], rest = mean[2 * row + 1], scale = inverse[row];

    acc_t total = 0, dot = 0, u[4], w[4], h[4];
    auto load_both = [&](index_t j, index_t left) {  // zeros past the end
        load(g + j, left, u);
        load(x + j, left, h);
        load_or(weight, 1, j, left, w);
        for (int k = 0; k < 4; k++) u[k] *= w[k], h[k] = (h[k] - centre - rest) * scale;
    };
    by_fours(size, [&](index_t j, index_t left) {
        load_both(j, left);
        for (int k = 0; k < 4; k++) total += u[k], dot += u[k] * h[k];
    });
    total = row_sum(total, scratch) / size;
    dot = row_sum(dot, scratch) / size;
    by_fours(size, [&](index_t j, index_t left) {
        load_both(j, left);
        for (int k = 0; k < 4; k++) u[k] = scale * (u[k] - total - h[k] * dot);
        store(u, dx + j, left);
    });
}

// y = x / sqrt(mean(x**2) + eps) * weight
extern "C" __global__ void rms_norm(
    const scalar_t* x, const PARAMETER* weight, scalar_t* y, acc_t* inverse, index_t rows, index_t size, acc_t eps
) {
    __shared__ acc_t scratch[32];
    const index_t row = row_of_thread();
    if (row >= rows) return;
    x += row * size, y += row * size;

    const acc_t scale = inverse_root(x, 0, 0, size, eps, scratch);
    by_fours(size, [&](index_t j, index_t left) {
        acc_t h[4], w[4];
        load(x + j, left, h);
        load_or(weight, 1, j, left, w);
        for (int k = 0; k < 4; k++) h[k] *= scale * w[k];
        store(h, y + j, left);
    });
    if (threadIdx.x == 0) inverse[row] = scale;
}

// with h = x / sqrt(mean(x**2) + eps) and u = g weight: dx = (u - h mean(u h)) / sqrt(mean(x**2) + eps)
extern "C" __global__ void rms_norm_backward(
    const scalar_t* x, const PARAMETER* weight, const scalar_t* g, const acc_t* inverse, scalar_t* dx,
    index_t rows, index_t size
) {
    __shared__ acc_t scratch[32];
    const index_t row = row_of_thread();
    if (row >= rows) return;
    x += row * size, g += row * size, dx += row * size;
    const acc_t scale = inverse[row];

    acc_t dot = 0, u[4], w[4], h[4];
    auto load_both = [&](index_t j, index_t left) {  // zeros past the end
        load(g + j, left, u);
        load(x + j, left, h);
        load_or(weight, 1, j, left, w);
        for (int k = 0; k < 4; k++) u[k] *= w[k], h[k] *= scale;
    };
    by_fours(size, [&](index_t j, index_t left) {
        load_both(j, left);
        for (int k = 0; k < 4; k++) dot += u[k] * h[k];
    });
    dot = row_sum(dot, scratch) / size;
    by_fours(size, [&](index_t j, index_t left) {
        load_both(j, left);
        for (int k = 0; k < 4; k++) u[k] = scale * (u[k] - h[k] * dot);
        store(u, dx + j, left);
    });
}

// d weight = sum of g h over rows, d bias = sum of g, both as partial sums (see columns.cuh); mean may be null.
extern "C" __global__ void norm_parameters(
    const scalar_t* x, const scalar_t* g, const acc_t* mean, const acc_t* inverse, acc_t* d_weight, acc_t* d_bias,
    index_t rows, index_t size
) {
    __shared__ Scratch scratch;
    const index_t column = first_column();
    acc_t dot[4] = {}, total[4] = {}, h[4], d[4];
    if (column < size)
        for (index_t row = first_row(); row < rows; row += (index_t)gridDim.y * SHARES) {
            const acc_t centre = mean ? mean[2 * row] : 0, rest = mean ? mean[2 * row + 1] : 0;
            load(x + row * size + column, size - column, h);
            load(g + row * size + column, size - column, d);
            for (int k = 0; k < 4; k++) {
                dot[k] += d[k] * ((h[k] - centre - rest) * inverse[row]);
                total[k] += d[k];
            }
        }
    if (d_weight) write_part(dot, d_weight, size, scratch);
    if (d_bias) write_part(total, d_bias, size, scratch);
}
