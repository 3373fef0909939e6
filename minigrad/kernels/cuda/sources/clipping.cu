// The total norm of all gradients, and scaling them down (Pascanu et al. 2013, "On the difficulty of training
// recurrent neural networks"). Norm and factor stay on the GPU. Sums over threads are in double.

#include "many.cuh"

// The sum over the 256 threads of a block, in a fixed order, returned to the first thread.
__device__ inline double block_sum(double value) {
    __shared__ double of_warps[8];
    for (int apart = 16; apart; apart /= 2) value += __shfl_xor_sync(WARP, value, apart);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    for (int warp = 0; warp < 8; warp++) value += of_warps[warp];
    return value;
}

// sums[block] = the sum of x**2 over a block's share of the elements
extern "C" __global__ void sum_of_squares(Many of, double* sums) {
    const Share share = share_of_block(of);
    const scalar_t* x = (const scalar_t*)of.source[share.array];
    double total = 0;
    for (index_t i = share.first + threadIdx.x; i < share.end; i += 256) {
        const acc_t value = x[i];
        total += (double)value * value;
    }
    total = block_sum(total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

// norm = sqrt(sum of sums); by one block
extern "C" __global__ void root_of_sum(const double* sums, double* norm, index_t number) {
    double total = 0;
    for (index_t i = threadIdx.x; i < number; i += 256) total += sums[i];
    total = block_sum(total);
    if (threadIdx.x == 0) *norm = sqrt(total);
}

// x *= largest / (norm + 1e-6) if that is below 1 or NaN
extern "C" __global__ void scale(Many of, const double* norm, double largest) {
    const double factor = largest / (*norm + 1e-6);
    if (factor >= 1) return;
    const Share share = share_of_block(of);
    scalar_t* x = (scalar_t*)of.source[share.array];
    for (index_t i = share.first + threadIdx.x; i < share.end; i += blockDim.x) x[i] = x[i] * (acc_t)factor;
}
