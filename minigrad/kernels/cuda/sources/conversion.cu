// Conversion of scalar_t to TARGET (a compiler option), rounded to nearest, ties to even.

#include "common.cuh"

#ifndef TARGET
#define TARGET float
#endif

extern "C" __global__ void convert(const scalar_t* x, TARGET* y, index_t number) {
    const index_t all = (index_t)gridDim.x * blockDim.x * 4;
    for (index_t i = ((index_t)blockIdx.x * blockDim.x + threadIdx.x) * 4; i < number; i += all) {
        acc_t four[4];
        load(x + i, number - i, four);
        store(four, y + i, number - i);
    }
}
