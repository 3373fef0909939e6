// Softmax and log-softmax over rows.

#include "heads.cuh"
#include "rows.cuh"

// y = exp(x - m) / sum(exp(x - m)), with m the largest, where the mask is true; zeros for a fully masked row.
// Row r of x is row (b, h, i) of an array (batch, heads, queries, size).
extern "C" __global__ void softmax(
    const scalar_t* x, Mask mask, scalar_t* y, index_t rows, index_t size, index_t heads, index_t queries
) {
    __shared__ acc_t scratch[32];
    const index_t row = row_of_thread();
    if (row >= rows) return;
    x += row * size, y += row * size;
    const index_t i = row % queries, h = row / queries % heads, b = row / queries / heads;

    acc_t m = -infinity();
    for (index_t j = threadIdx.x; j < size; j += blockDim.x)
        if (mask.allows(b, h, i, j)) m = Larger()(m, x[j]);
    m = row_max(m, scratch);
    if (mask.data && m == -infinity()) m = 0;  // fully masked: then exp(-inf - 0) is 0, and so is y
    acc_t total = 0;
    for (index_t j = threadIdx.x; j < size; j += blockDim.x)
        if (mask.allows(b, h, i, j)) total += exp(x[j] - m);
    total = row_sum(total, scratch);
    if (mask.data && total == 0) total = 1;
    for (index_t j = threadIdx.x; j < size; j += blockDim.x)
        y[j] = mask.allows(b, h, i, j) ? exp(x[j] - m) / total : (acc_t)0;
}

// dx = y (g - sum(g y))
extern "C" __global__ void softmax_backward(
    const scalar_t* y, const scalar_t* g, scalar_t* dx, index_t rows, index_t size
) {
    __shared__ acc_t scratch[32];
    const index_t row = row_of_thread();
    if (row >= rows) return;
    y += row * size, g += row * size, dx += row * size;

    acc_t total = 0;
    for (index_t j = threadIdx.x; j < size; j += blockDim.x) total += (acc_t)g[j] * (acc_t)y[j];
    total = row_sum(total, scratch);
    for (index_t j = threadIdx.x; j < size; j += blockDim.x) dx[j] = y[j] * (g[j] - total);
}

// y = x - m - log(sum(exp(x - m)))
extern "C" __global__ void log_softmax(const scalar_t* x, scalar_t* y, index_t rows, index_t size) {
    __shared__ acc_t scratch[32];
    const index_t row = row_of_thread();
    if (row >= rows) return;
    x += row * size, y += row * size;

    acc_t m = -infinity();
    for (index_t j = threadIdx.x; j < size; j += blockDim.x) m = Larger()(m, x[j]);
    m = row_max(m, scratch);
    acc_t total = 0;
    for (index_t j = threadIdx.x; j < size; j += blockDim.x) total += exp(x[j] - m);
    const acc_t shift = log(row_sum(total, scratch));
    for (index_t j = threadIdx.x; j < size; j += blockDim.x) y[j] = x[j] - m - shift;
}

// dx = g - softmax(x) sum(g), and softmax(x) = exp(y)
extern "C" __global__ void log_softmax_backward(
    const scalar_t* y, const scalar_t* g, scalar_t* dx, index_t rows, index_t size
) {
    __shared__ acc_t scratch[32];
    const index_t row = row_of_thread();
    if (row >= rows) return;
    y += row * size, g += row * size, dx += row * size;

    acc_t total = 0;
    for (index_t j = threadIdx.x; j < size; j += blockDim.x) total += g[j];
    total = row_sum(total, scratch);
    for (index_t j = threadIdx.x; j < size; j += blockDim.x) dx[j] = g[j] - exp((acc_t)y[j]) * total;
}
