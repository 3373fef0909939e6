// Rows of a matrix, each by itself. A short row is one warp's, blockDim = (32, rows of a block); a long one
// is a whole block's, blockDim = (threads, 1). Sums are added in one order, so that they never differ.

#pragma once
#include "common.cuh"

__device__ inline index_t row_of_thread() { return (index_t)blockIdx.x * blockDim.y + threadIdx.y; }

struct Plus {
    __device__ acc_t operator()(acc_t a, acc_t b) const { return a + b; }
};

struct Larger {
    __device__ acc_t operator()(acc_t a, acc_t b) const { return a > b ? a : b; }
};

// What the threads of a row have, combined; every thread gets it. `scratch` is shared memory, a number a warp.
template <class Combine> __device__ acc_t over_row(acc_t value, Combine combine, acc_t* scratch) {
    for (int apart = 16; apart; apart /= 2) value = combine(value, __shfl_xor_sync(WARP, value, apart));
    if (blockDim.x == 32) return value;
    __syncthreads();  // everyone has read what an earlier call left in scratch
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    value = scratch[0];
    for (int warp = 1; warp < blockDim.x / 32; warp++) value = combine(value, scratch[warp]);
    return value;
}

__device__ inline acc_t row_sum(acc_t value, acc_t* scratch) { return over_row(value, Plus(), scratch); }
__device__ inline acc_t row_max(acc_t value, acc_t* scratch) { return over_row(value, Larger(), scratch); }
