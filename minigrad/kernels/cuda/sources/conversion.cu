// Conversion of scalar_t to TARGET (a compiler option), rounded to nearest, ties to even.

#include "common.cuh"

#ifndef TARGET
#define TARGET float
#endif

struct alignas(4 * sizeof(TARGET)) FourTargets {
    TARGET at[4];
};

extern "C" __global__ void convert(const scalar_t* x, TARGET* y, index_t number) {
    const index_t first = (index_t)blockIdx.x * blockDim.x + threadIdx.x, all = (index_t)gridDim.x * blockDim.x;
    const index_t fours = in_fours(x) && (word_t)y % sizeof(FourTargets) == 0 ? number / 4 : 0;
    for (index_t i = first; i < fours; i += all) {
        const Four from = ((const Four*)x)[i];
        FourTargets to;
        for (int k = 0; k < 4; k++) to.at[k] = (acc_t)from.at[k];
        ((FourTargets*)y)[i] = to;
    }
    for (index_t i = fours * 4 + first; i < number; i += all) y[i] = (acc_t)x[i];
}
