// Column sums of a matrix in two stages, in a fixed order: a block of (32, 8) threads, each with four columns,
// computes a partial sum over some of the rows, and `sum_of_parts` adds the partial sums.

#pragma once
#include "common.cuh"

const int SHARES = 8;  // threads per column

__device__ inline index_t first_column() { return ((index_t)blockIdx.x * 32 + threadIdx.x) * 4; }
__device__ inline index_t first_row() { return (index_t)blockIdx.y * SHARES + threadIdx.y; }

typedef acc_t Scratch[SHARES][4][32];  // shared memory

// Add up the sums of the threads of a column, and write them as this block's partial sums.
__device__ inline void write_part(const acc_t sums[4], acc_t* parts, index_t size, Scratch scratch) {
    __syncthreads();  // all threads have read the sums of an earlier call from scratch
    for (int k = 0; k < 4; k++) scratch[threadIdx.y][k][threadIdx.x] = sums[k];
    __syncthreads();
    const int k = threadIdx.y;
    const index_t column = first_column() + k;
    if (k >= 4 || column >= size) return;
    acc_t total = 0;
    for (int share = 0; share < SHARES; share++) total += scratch[share][k][threadIdx.x];
    parts[blockIdx.y * size + column] = total;
}

// out[j] = parts[0][j] + parts[1][j] + ...
extern "C" __global__ void sum_of_parts(const acc_t* parts, scalar_t* out, index_t number, index_t size) {
    const index_t column = (index_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= size) return;
    acc_t total = 0;
    for (index_t part = 0; part < number; part++) total += parts[part * size + column];
    out[column] = total;
}
