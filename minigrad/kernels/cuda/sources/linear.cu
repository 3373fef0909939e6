// The gradient of a linear layer's bias: the sum of g over its rows.

#include "columns.cuh"

// Partial sums of each column, see columns.cuh.
extern "C" __global__ void column_sums(const scalar_t* g, acc_t* parts, index_t rows, index_t size) {
    __shared__ Scratch scratch;
    const index_t column = first_column();
    acc_t total[4] = {}, four[4];
    if (column < size)
        for (index_t row = first_row(); row < rows; row += (index_t)gridDim.y * SHARES) {
            load(g + row * size + column, size - column, four);
            for (int k = 0; k < 4; k++) total[k] += four[k];
        }
    write_part(total, parts, size, scratch);
}
