// Softmax and log-softmax over rows.

#include "rows.cuh"

// y = exp(x - m) / sum(exp(x - m)), with m the largest
extern "C" __global__ void softmax(const scalar_t* x, scalar_t* y, index_t rows, index_t size) {
    __shared__ acc_t scratch[32];
    const index_t row = row_of_thread();
    if (row >= rows) return;
    x += row * size, y += row * size;

    acc_t m = -infinity(), total = 0;
    for_each(x, size, [&](acc_t number) { m = Larger()(m, number); });
    m = row_max(m, scratch);
    for_each(x, size, [&](acc_t number) { total += exp(number - m); });
    total = row_sum(total, scratch);
    by_fours(size, [&](index_t j, index_t left) {
        acc_t four[4];
        load(x + j, left, four);
        for (int k = 0; k < 4; k++) four[k] = exp(four[k] - m) / total;
        store(four, y + j, left);
    });
}

// dx = y (g - sum(g y))
extern "C" __global__ void softmax_backward(
    const scalar_t* y, const scalar_t* g, scalar_t* dx, index_t rows, index_t size
) {
    __shared__ acc_t scratch[32];
    const index_t row = row_of_thread();
    if (row >= rows) return;
    y += row * size, g += row * size, dx += row * size;

    acc_t total = 0, d[4], p[4];
    by_fours(size, [&](index_t j, index_t left) {
        load(g + j, left, d);
        load(y + j, left, p);
        for (int k = 0; k < 4; k++) total += d[k] * p[k];
    });
    total = row_sum(total, scratch);
    by_fours(size, [&](index_t j, index_t left) {
        load(g + j, left, d);
        load(y + j, left, p);
        for (int k = 0; k < 4; k++) p[k] *= d[k] - total;
        store(p, dx + j, left);
    });
}

// y = x - m - log(sum(exp(x - m)))
extern "C" __global__ void log_softmax(const scalar_t* x, scalar_t* y, index_t rows, index_t size) {
    __shared__ acc_t scratch[32];
    const index_t row = row_of_thread();
    if (row >= rows) return;
    x += row * size, y += row * size;

    acc_t m = -infinity(), total = 0;
    for_each(x, size, [&](acc_t number) { m = Larger()(m, number); });
    m = row_max(m, scratch);
    for_each(x, size, [&](acc_t number) { total += exp(number - m); });
    const acc_t shift = log(row_sum(total, scratch));
    by_fours(size, [&](index_t j, index_t left) {
        acc_t four[4];
        load(x + j, left, four);
        for (int k = 0; k < 4; k++) four[k] = four[k] - m - shift;
        store(four, y + j, left);
    });
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
    for_each(g, size, [&](acc_t number) { total += number; });
    total = row_sum(total, scratch);
    by_fours(size, [&](index_t j, index_t left) {
        acc_t d[4], logarithm[4];
        load(g + j, left, d);
        load(y + j, left, logarithm);
        for (int k = 0; k < 4; k++) d[k] -= exp(logarithm[k]) * total;
        store(d, dx + j, left);
    });
}
