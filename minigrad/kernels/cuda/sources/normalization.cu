// Layer normalization (Ba, Kiros and Hinton 2016, equation 4) and RMS normalization (Zhang and Sennrich 2019,
// equation 4), over rows. A row's 1 / sqrt(var + eps) and mean are stored for backward: the mean as two numbers,
// the second its rounding error, which matters if the deviations are much smaller than the mean.

#include "columns.cuh"
#include "rows.cuh"

// 1 / sqrt(mean((x - centre - rest)**2) + eps) of a row. If squares overflow or underflow, x is divided by the
// row's largest element first.
__device__ inline acc_t inverse_root(
    const scalar_t* x, acc_t centre, acc_t rest, index_t size, acc_t eps, acc_t* scratch
) {
    acc_t squares = 0, largest = 0;
    for (index_t j = threadIdx.x; j < size; j += blockDim.x) {
        const acc_t d = x[j] - centre - rest;
        squares += d * d;
    }
    const acc_t mean = row_sum(squares, scratch) / size + eps;
    if (mean > (acc_t)1e-26 && mean < (acc_t)1e36) return 1 / sqrt(mean);
    for (index_t j = threadIdx.x; j < size; j += blockDim.x) {
        const acc_t d = x[j] - centre - rest;
        largest = Larger()(largest, d < 0 ? -d : d);
    }
    largest = row_max(largest, scratch);
    if (!(largest > 0 && largest < infinity())) return 1 / sqrt(mean);
    squares = 0;
    for (index_t j = threadIdx.x; j < size; j += blockDim.x) {
        const acc_t d = (x[j] - centre - rest) / largest;
        squares += d * d;
    }
    return 1 / sqrt(row_sum(squares, scratch) / size + eps / largest / largest) / largest;
}

// h = (x - mean) / sqrt(var + eps), y = h weight + bias; weight and bias may be null
extern "C" __global__ void layer_norm(
    const scalar_t* x, const scalar_t* weight, const scalar_t* bias, scalar_t* y, acc_t* mean, acc_t* inverse,
    index_t rows, index_t size, acc_t eps
) {
    __shared__ acc_t scratch[32];
    const index_t row = row_of_thread();
    if (row >= rows) return;
    x += row * size, y += row * size;

    acc_t total = 0;
    for (index_t j = threadIdx.x; j < size; j += blockDim.x) total += x[j];
    const acc_t centre = row_sum(total, scratch) / size;
    acc_t left = 0;
    for (index_t j = threadIdx.x; j < size; j += blockDim.x) left += x[j] - centre;
    const acc_t rest = row_sum(left, scratch) / size;
    const acc_t scale = inverse_root(x, centre, rest, size, eps, scratch);

    for (index_t j = threadIdx.x; j < size; j += blockDim.x) {
        const acc_t h = (x[j] - centre - rest) * scale;
        y[j] = h * (weight ? (acc_t)weight[j] : 1) + (bias ? (acc_t)bias[j] : 0);
    }
    if (threadIdx.x == 0) mean[2 * row] = centre, mean[2 * row + 1] = rest, inverse[row] = scale;
}

// with u = g weight: dx = (u - mean(u) - h mean(u h)) / sqrt(var + eps)
extern "C" __global__ void layer_norm_backward(
    const scalar_t* x, const scalar_t* weight, const scalar_t* g, const acc_t* mean, const acc_t* inverse,
    scalar_t* dx, index_t rows, index_t size
) {
    __shared__ acc_t scratch[32];
    const index_t row = row_of_thread();
    if (row >= rows) return;
    x += row * size, g += row * size, dx += row * size;
    const acc_t centre = mean[2 * row], rest = mean[2 * row + 1], scale = inverse[row];

    acc_t total = 0, dot = 0;
    for (index_t j = threadIdx.x; j < size; j += blockDim.x) {
        const acc_t u = g[j] * (weight ? (acc_t)weight[j] : 1);
        total += u;
        dot += u * ((x[j] - centre - rest) * scale);
    }
    total = row_sum(total, scratch) / size;
    dot = row_sum(dot, scratch) / size;

    for (index_t j = threadIdx.x; j < size; j += blockDim.x) {
        const acc_t u = g[j] * (weight ? (acc_t)weight[j] : 1), h = (x[j] - centre - rest) * scale;
        dx[j] = scale * (u - total - h * dot);
    }
}

// y = x / sqrt(mean(x**2) + eps) * weight
extern "C" __global__ void rms_norm(
    const scalar_t* x, const scalar_t* weight, scalar_t* y, acc_t* inverse, index_t rows, index_t size, acc_t eps
) {
    __shared__ acc_t scratch[32];
    const index_t row = row_of_thread();
    if (row >= rows) return;
    x += row * size, y += row * size;

    const acc_t scale = inverse_root(x, 0, 0, size, eps, scratch);
    for (index_t j = threadIdx.x; j < size; j += blockDim.x) y[j] = x[j] * scale * (weight ? (acc_t)weight[j] : 1);
    if (threadIdx.x == 0) inverse[row] = scale;
}

// with h = x / sqrt(mean(x**2) + eps) and u = g weight: dx = (u - h mean(u h)) / sqrt(mean(x**2) + eps)
extern "C" __global__ void rms_norm_backward(
    const scalar_t* x, const scalar_t* weight, const scalar_t* g, const acc_t* inverse, scalar_t* dx,
    index_t rows, index_t size
) {
    __shared__ acc_t scratch[32];
    const index_t row = row_of_thread();
    if (row >= rows) return;
    x += row * size, g += row * size, dx += row * size;
    const acc_t scale = inverse[row];

    acc_t dot = 0;
    for (index_t j = threadIdx.x; j < size; j += blockDim.x)
        dot += g[j] * (weight ? (acc_t)weight[j] : 1) * (x[j] * scale);
    dot = row_sum(dot, scratch) / size;
    for (index_t j = threadIdx.x; j < size; j += blockDim.x) {
        const acc_t u = g[j] * (weight ? (acc_t)weight[j] : 1);
        dx[j] = scale * (u - x[j] * scale * dot);
    }
}

// d weight = sum of g h over rows, d bias = sum of g, both as partial sums (see columns.cuh); mean may be null.
extern "C" __global__ void norm_parameters(
    const scalar_t* x, const scalar_t* g, const acc_t* mean, const acc_t* inverse, acc_t* d_weight, acc_t* d_bias,
    index_t rows, index_t size
) {
    __shared__ acc_t scratch[SHARES][32];
    const index_t column = (index_t)blockIdx.x * 32 + threadIdx.x;
    acc_t dot = 0, total = 0;
    if (column < size)
        for (index_t row = (index_t)blockIdx.y * SHARES + threadIdx.y; row < rows; row += (index_t)gridDim.y * SHARES) {
            const acc_t number = x[row * size + column];
            const acc_t h = (mean ? number - mean[2 * row] - mean[2 * row + 1] : number) * inverse[row];
            dot += g[row * size + column] * h;
            total += g[row * size + column];
        }
    dot = column_sum(dot, scratch);
    total = column_sum(total, scratch);
    if (threadIdx.y || column >= size) return;
    if (d_weight) d_weight[blockIdx.y * size + column] = dot;
    if (d_bias) d_bias[blockIdx.y * size + column] = total;
}
