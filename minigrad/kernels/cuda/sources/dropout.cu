// Dropout (Srivastava et al. 2014). The mask is not stored: backward draws it again.

#include "philox.cuh"

// y = x keep / (1 - p). A warp computes 512 elements: each thread draws for 16 neighbours, and reads and
// writes 16 that are 32 apart, so that the warp's accesses are contiguous; draws are exchanged by shuffles.
extern "C" __global__ void dropout(const scalar_t* x, scalar_t* y, index_t number, Draw draw) {
    const int lane = threadIdx.x % 32;
    const index_t start = ((index_t)blockIdx.x * blockDim.x + threadIdx.x) / 32 * 512;
    const unsigned mine = kept_from(draw, start + lane * 16);
    const acc_t factor = draw.scale;
    for (int turn = 0; turn < 16; turn++) {
        const int place = turn * 32 + lane;  // index among the warp's elements
        const unsigned kept = __shfl_sync(WARP, mine, place / 16) >> place % 16 & 1;
        if (start + place < number) y[start + place] = kept ? x[start + place] * factor : (acc_t)0;
    }
}
