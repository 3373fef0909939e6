// Reductions over the rows of a matrix. A warp computes a short row, blockDim = (32, rows per block); a block
// computes a long one, blockDim = (threads, 1). Sums are added in a fixed order.

#pragma once
#include "common.cuh"

__device__ inline index_t row_of_thread() { return (index_t)blockIdx.x * blockDim.y + threadIdx.y; }

// Call f(j, left) for the elements j to j + 3 of a row, of which `left` are left, that this thread computes.
template <class F> __device__ inline void by_fours(index_t size, F f) {
    for (index_t j = threadIdx.x * 4; j < size; j += blockDim.x * 4) f(j, size - j);
}

// Call f(number) for this thread's elements of a row.
template <class F> __device__ inline void for_each(const scalar_t* x, index_t size, F f) {
    by_fours(size, [&](index_t j, index_t left) {
        acc_t four[4];
        load(x + j, left, four);
        for (int k = 0; k < 4; k++)
            if (k < left) f(four[k]);
    });
}

struct Plus {
    __device__ acc_t operator()(acc_t a, acc_t b) const { return a + b; }
};

struct Larger {
    __device__ acc_t operator()(acc_t a, acc_t b) const { return a > b ? a : b; }
};

// Combine the values of a row's threads, and return the result to each. `scratch` is shared memory, one value
// per warp.
template <class Combine> __device__ acc_t over_row(acc_t value, Combine combine, acc_t* scratch) {
    for (int apart = 16; apart; apart /= 2) value = combine(value, __shfl_xor_sync(WARP, value, apart));
    if (blockDim.x == 32) return value;
    __syncthreads();  // all threads have read the results of an earlier call from scratch
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    value = scratch[0];
    for (int warp = 1; warp < blockDim.x / 32; warp++) value = combine(value, scratch[warp]);
    return value;
}

__device__ inline acc_t row_sum(acc_t value, acc_t* scratch) { return over_row(value, Plus(), scratch); }
__device__ inline acc_t row_max(acc_t value, acc_t* scratch) { return over_row(value, Larger(), scratch); }
