// Embeddings. A row's gradient is the sum over its uses, in a fixed order: no floating-point atomics. A row's
// first and last use are found first (a minimum and maximum of integers do not depend on the order), and its
// uses are searched only between them.

#include "rows.cuh"

const int WARPS = 16;   // warps that share the uses of a row
const int COLUMNS = 4;  // columns per thread

// y[i] = weight[ids[i]]; NaN if the id is out of range
extern "C" __global__ void embedding(
    const scalar_t* weight, const index_t* ids, scalar_t* y, index_t number, index_t rows, index_t size
) {
    const index_t i = row_of_thread();
    if (i >= number) return;
    const index_t row = ids[i];
    const bool there = row >= 0 && row < rows;
    for (index_t j = threadIdx.x; j < size; j += blockDim.x)
        y[i * size + j] = there ? weight[row * size + j] : (scalar_t)not_a_number();
}

// out = 0; mark all rows as unused
extern "C" __global__ void embedding_clear(
    scalar_t* out, int* first_use, int* last_use, index_t rows, index_t size
) {
    const index_t all = (index_t)gridDim.x * blockDim.x;
    for (index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * size; i += all) {
        out[i] = (acc_t)0;
        if (i < rows) first_use[i] = 0x7fffffff, last_use[i] = -1;
    }
}

// the first and last index i at which each row is used
extern "C" __global__ void embedding_uses(
    const index_t* ids, int* first_use, int* last_use, index_t number, index_t rows
) {
    const index_t all = (index_t)gridDim.x * blockDim.x;
    for (index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x; i < number; i += all) {
        const index_t row = ids[i];
        if (row < 0 || row >= rows) continue;
        atomicMin(&first_use[row], (int)i);
        atomicMax(&last_use[row], (int)i);
    }
}

// out[row] = the sum of g[i] over all i with ids[i] == row. The block of a row's first use computes it; from
// there to the last use, each warp scans every 16th group of 32 ids, and the warps' sums are added in order.
// blockIdx.y counts groups of 128 columns.
extern "C" __global__ void embedding_backward(
    const scalar_t* g, const index_t* ids, const int* first_use, const int* last_use, scalar_t* out,
    index_t number, index_t rows, index_t size
) {
    __shared__ acc_t sums[WARPS][COLUMNS][32];
    const index_t place = blockIdx.x, row = ids[place];
    if (row < 0 || row >= rows || first_use[row] != place) return;
    const index_t end = last_use[row] + 1, column = (index_t)blockIdx.y * 32 * COLUMNS + threadIdx.x;

    acc_t total[COLUMNS] = {};
    for (index_t from = place + threadIdx.y * 32; from < end; from += WARPS * 32) {
        const index_t mine = from + threadIdx.x;
        unsigned uses = __ballot_sync(WARP, mine < end && ids[mine] == row);
        for (; uses; uses &= uses - 1) {  // clear the lowest bit
            const scalar_t* used = g + (from + __ffs(uses) - 1) * size;
            for (int k = 0; k < COLUMNS; k++)
                if (column + 32 * k < size) total[k] += used[column + 32 * k];
        }
    }
    for (int k = 0; k < COLUMNS; k++) sums[threadIdx.y][k][threadIdx.x] = total[k];
    __syncthreads();
    if (threadIdx.y >= COLUMNS) return;
    const int k = threadIdx.y;
    acc_t sum = 0;
    for (int warp = 0; warp < WARPS; warp++) sum += sums[warp][k][threadIdx.x];
    if (column + 32 * k < size) out[row * size + column + 32 * k] = sum;
}
