// Copies of many arrays in one launch, and conversion to another dtype.

#include "many.cuh"

extern "C" __global__ void copy_many(Many of) {
    const Share share = share_of_block(of);
    const scalar_t* source = (const scalar_t*)of.source[share.array];
    scalar_t* target = (scalar_t*)of.target[share.array];
    for (index_t i = share.first + threadIdx.x; i < share.end; i += blockDim.x) target[i] = source[i];
}
