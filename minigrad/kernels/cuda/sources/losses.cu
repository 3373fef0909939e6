// Cross-entropy of rows of scores: -sum of q log softmax(x), q = (1 - e) onehot(target) + e / V, with V
// classes and e the label smoothing. Each row's largest score m and log(sum(exp(x - m))) are stored, separately
// since their sum may lose digits; backward recomputes softmax from them.

#include "rows.cuh"

#ifndef RESULT
#define RESULT SCALAR  // the type of the loss and its gradient, which may be float with x of 16 bits
#endif

// loss = log(sum(exp(x))) - sum of q x; NaN for a class out of range.
extern "C" __global__ void cross_entropy(
    const scalar_t* x, const index_t* target, acc_t* losses, acc_t* shifts, index_t rows, index_t classes,
    index_t ignored, acc_t smoothing
) {
    __shared__ acc_t scratch[32];
    const index_t row = row_of_thread();
    if (row >= rows) return;
    x += row * classes;

    // the row is read once: with m the largest so far, `total` is the sum of exp(x - m)
    acc_t largest = -infinity(), total = 0;
    for_each(x, classes, [&](acc_t number) {
        if (number > largest) {
            total = total * exp(largest - number) + (number - number + 1);  // NaN if it is infinite
            largest = number;
        } else if (number != -infinity()) {
            total += exp(number - largest);
        }
    });
    const acc_t m = row_max(largest, scratch);
    if (largest != m) total *= exp(largest - m);
    const acc_t shift = log(row_sum(total, scratch));
    acc_t sum_x = 0;
    if (smoothing) {
        for_each(x, classes, [&](acc_t number) { sum_x += number - m; });
        sum_x = row_sum(sum_x, scratch);
    }
    if (threadIdx.x) return;

    const index_t t = target[row];
    const bool there = t >= 0 && t < classes;
    acc_t loss = there ? shift - (1 - smoothing) * (x[t] - m) : not_a_number();
    if (smoothing) loss -= smoothing * sum_x / classes;
    losses[row] = t == ignored ? 0 : loss;
    shifts[2 * row] = m, shifts[2 * row + 1] = there ? shift : not_a_number();
}

// value = the sum of the losses, or their mean over the `number` rows that are not ignored; by one block
extern "C" __global__ void cross_entropy_total(
    const acc_t* losses, const index_t* target, RESULT* value, acc_t* number, index_t rows, index_t ignored,
    index_t is_mean
) {
    __shared__ acc_t scratch[32];
    acc_t total = 0, count = 0;
    for (index_t row = threadIdx.x; row < rows; row += blockDim.x) {
        total += losses[row];
        count += target[row] != ignored;
    }
    total = row_sum(total, scratch);
    count = row_sum(count, scratch);
    if (threadIdx.x) return;
    *value = is_mean ? total / count : total;
    *number = is_mean ? count : 1;
}

// dx = (softmax(x) - q) g / number; g has one number for all rows or, if `each` is 1, one per row
extern "C" __global__ void cross_entropy_backward(
    const scalar_t* x, const index_t* target, const acc_t* shifts, const RESULT* g, index_t each,
    const acc_t* number, scalar_t* dx, index_t rows, index_t classes, index_t ignored, acc_t smoothing
) {
    const index_t row = row_of_thread();
    if (row >= rows) return;
    x += row * classes, dx += row * classes;
    const index_t t = target[row];
    const acc_t scale = g[row * each] / (number ? *number : 1);
    const acc_t m = shifts[2 * row], shift = shifts[2 * row + 1], even = smoothing / classes;

    by_fours(classes, [&](index_t j, index_t left) {
        acc_t four[4];
        load(x + j, left, four);
        for (int k = 0; k < 4; k++) {
            const acc_t q = even + (j + k == t ? 1 - smoothing : 0);
            four[k] = t == ignored ? 0 : scale * (exp(four[k] - m - shift) - q);
        }
        store(four, dx + j, left);
    });
}
