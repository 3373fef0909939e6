// The gradient of a linear layer's bias: the sum of g over its rows.

#include "columns.cuh"

const int WIDE = 4;  // columns per thread

// Partial sums of each column, see columns.cuh; a block of (32, 8) threads sums 128 columns.
extern "C" __global__ void column_sums(const scalar_t* g, acc_t* parts, index_t rows, index_t size) {
    __shared__ acc_t scratch[SHARES][32];
    const index_t column = ((index_t)blockIdx.x * 32 + threadIdx.x) * WIDE;
    const bool at_once = size % WIDE == 0 && in_fours(g);
    acc_t total[WIDE] = {};
    if (column < size)
        for (index_t row = (index_t)blockIdx.y * SHARES + threadIdx.y; row < rows; row += (index_t)gridDim.y * SHARES) {
            const scalar_t* place = g + row * size + column;
            if (at_once) {
                const Four four = *(const Four*)place;
                for (int k = 0; k < WIDE; k++) total[k] += four.at[k];
            } else {
                for (int k = 0; k < WIDE && column + k < size; k++) total[k] += place[k];
            }
        }
    for (int k = 0; k < WIDE; k++) {
        const acc_t sum = column_sum(total[k], scratch);
        if (threadIdx.y == 0 && column + k < size) parts[blockIdx.y * size + column + k] = sum;
    }
}
