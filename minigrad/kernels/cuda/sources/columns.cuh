// Column sums of a matrix in two stages, in a fixed order: a block of (32 columns, 8) threads computes a partial
// sum over some of the rows, and `sum_of_parts` adds the partial sums.

#pragma once
#include "common.cuh"

const int SHARES = 8;  // threads per column

// The sum over the threads of a column, returned to the threads with threadIdx.y == 0.
__device__ inline acc_t column_sum(acc_t value, acc_t (*scratch)[32]) {
    __syncthreads();  // all threads have read the results of an earlier call from scratch
    scratch[threadIdx.y][threadIdx.x] = value;
    __syncthreads();
    acc_t total = 0;
    if (threadIdx.y == 0)
        for (int share = 0; share < SHARES; share++) total += scratch[share][threadIdx.x];
    return total;
}

// out[j] = parts[0][j] + parts[1][j] + ...
extern "C" __global__ void sum_of_parts(const acc_t* parts, scalar_t* out, index_t number, index_t size) {
    const index_t column = (index_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= size) return;
    acc_t total = 0;
    for (index_t part = 0; part < number; part++) total += parts[part * size + column];
    out[column] = total;
}
