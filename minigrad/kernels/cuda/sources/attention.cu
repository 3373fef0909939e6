// Scaled dot-product attention without a stored matrix of weights (Dao et al. 2022, "FlashAttention"):
// W = softmax(scale q kᵀ) over the visible keys, y = dropout(W) v.
//
// Forward goes over the keys once: with m the largest score so far, the sums of exp(s - m) and of
// exp(s - m) v are multiplied by exp(old m - m) whenever m grows (algorithm 1). It stores
// L = log(sum(exp(s))) of each query, from which backward recomputes W = exp(s - L) (section 3.1). Backward
// is two kernels, one by queries and one by keys, each of which adds up its results in a fixed order.
//
// WIDTH, the width of a head rounded up to 32, 64 or 128, is a compiler option.

#include "heads.cuh"
#include "philox.cuh"

const int THREADS = 128;
const int OWN = 16;                                   // elements of a row in one thread
const int LANES = WIDTH / OWN;                        // threads per row
const int ROWS = THREADS / LANES;                     // rows per block
const int TILE = 16384 / (WIDTH * sizeof(acc_t)) / 16 * 16;  // rows in shared memory at a time
const int STEP = 16;                                  // keys scored between updates of m

typedef acc_t Tile[TILE][WIDTH];

struct Problem {
    index_t heads, queries, keys;
    index_t width, value_width;  // of q and k, and of v
    index_t is_causal;           // a query sees the keys up to its own position
};

// The index in its row of a thread's k-th element: the threads of a row take four each, in turns.
__device__ inline int place(int lane, int k) { return (k / 4 * LANES + lane) * 4 + k % 4; }

// This thread's elements of row i, times `factor`; zeros if there is no such row.
__device__ inline void load_own(acc_t own[OWN], const Heads& x, index_t b, index_t h, index_t i, index_t rows,
                                index_t width, int lane, acc_t factor) {
    for (int k = 0; k < OWN; k++)
        own[k] = i < rows && place(lane, k) < width ? x.at(b, h, i)[place(lane, k)] * factor : (acc_t)0;
}

__device__ inline void store_own(const acc_t own[OWN], const Heads& x, index_t b, index_t h, index_t i,
                                 index_t rows, index_t width, int lane, acc_t factor) {
    for (int k = 0; k < OWN; k++)
        if (i < rows && place(lane, k) < width) x.at(b, h, i)[place(lane, k)] = own[k] * factor;
}

// Load the rows from `first` on into shared memory, with all threads of the block; zeros past the end.
__device__ inline void load_tile(Tile tile, const Heads& x, index_t b, index_t h, index_t first, index_t rows,
                                 index_t width) {
    for (int n = threadIdx.x; n < TILE * WIDTH; n += THREADS) {
        const int i = n / WIDTH, k = n % WIDTH;
        tile[i][k] = first + i < rows && k < width ? (acc_t)x.at(b, h, first + i)[k] : (acc_t)0;
    }
}

// own · row, summed over the threads of a row, and returned to each of them.
__device__ inline acc_t dot(const acc_t own[OWN], const acc_t* row, int lane) {
    acc_t total = 0;
#pragma unroll
    for (int k = 0; k < OWN; k++) total += own[k] * row[place(lane, k)];
    for (int apart = 1; apart < LANES; apart *= 2) total += __shfl_xor_sync(WARP, total, apart);
    return total;
}

// total += weight row
__device__ inline void add(acc_t total[OWN], acc_t weight, const acc_t* row, int lane) {
#pragma unroll
    for (int k = 0; k < OWN; k++) total[k] += weight * row[place(lane, k)];
}

__device__ inline bool sees(const Problem& of, const Mask& mask, index_t b, index_t h, index_t i, index_t j) {
    return i < of.queries && j < of.keys && (!of.is_causal || j <= i) && mask.allows(b, h, i, j);
}

// The index of dropout's draw for query i and key j among those of all heads.
__device__ inline word_t element(const Problem& of, index_t i, index_t j) {
    return (blockIdx.x * (word_t)of.queries + i) * of.keys + j;
}

// blockIdx.x: which head of which example; blockIdx.y: which queries
extern "C" __global__ void __launch_bounds__(THREADS) attention(
    Heads q, Heads k, Heads v, Heads y, acc_t* logarithms, Problem of, Mask mask, acc_t scale, Draw draw
) {
    __shared__ __align__(16) Tile keys, values;
    const index_t b = blockIdx.x / of.heads, h = blockIdx.x % of.heads;
    const int lane = threadIdx.x % LANES;
    const index_t i = (index_t)blockIdx.y * ROWS + threadIdx.x / LANES;
    const index_t after = ((index_t)blockIdx.y + 1) * ROWS, end = of.is_causal ? min(of.keys, after) : of.keys;

    acc_t own[OWN], sum[OWN] = {}, m = -infinity(), total = 0;
    unsigned drawn = 0;
    load_own(own, q, b, h, i, of.queries, of.width, lane, scale);

    for (index_t first = 0; first < end; first += TILE) {
        __syncthreads();  // all threads are done with the previous tile
        load_tile(keys, k, b, h, first, of.keys, of.width);
        load_tile(values, v, b, h, first, of.keys, of.value_width);
        __syncthreads();
        for (int step = 0; step < TILE && first + step < end; step += STEP) {
            acc_t score[STEP], largest = m;
#pragma unroll
            for (int j = 0; j < STEP; j++) {
                score[j] = dot(own, keys[step + j], lane);
                if (!sees(of, mask, b, h, i, first + step + j)) score[j] = -infinity();
                largest = fmax(largest, score[j]);
            }
            const acc_t base = largest == -infinity() ? 0 : largest;  // no visible key yet: exp(-inf - 0) is 0
            const acc_t correction = exp(m - base);
            m = largest;
            total *= correction;
            for (int n = 0; n < OWN; n++) sum[n] *= correction;

            unsigned kept = 0xffff;  // each thread of a row draws for one of the next steps
            if (draw.threshold) {
                const int turn = (first + step) / STEP % LANES;
                if (turn == 0) drawn = kept_from(draw, element(of, i, first + step + lane * STEP));
                kept = __shfl_sync(WARP, drawn, turn, LANES);
            }
#pragma unroll
            for (int j = 0; j < STEP; j++) {
                const acc_t weight = exp(score[j] - base);
                total += weight;
                add(sum, kept >> j & 1 ? weight : 0, values[step + j], lane);
            }
        }
    }
    store_own(sum, y, b, h, i, of.queries, of.value_width, lane, total == 0 ? 0 : (acc_t)draw.scale / total);
    if (i < of.queries && lane == 0)
        logarithms[blockIdx.x * of.queries + i] = total == 0 ? infinity() : m + log(total);
}

// By queries: dq = scale dS k, with dS = W (dW - sum(dW W)), dW = g vᵀ where dropout keeps it, and
// sum(dW W) = g · y, which is written for the kernel by keys.
extern "C" __global__ void __launch_bounds__(THREADS) attention_backward_queries(
    Heads q, Heads k, Heads v, Heads y, Heads g, const acc_t* logarithms, acc_t* along, Heads dq, Problem of,
    Mask mask, acc_t scale, Draw draw
) {
    __shared__ __align__(16) Tile keys, values;
    const index_t b = blockIdx.x / of.heads, h = blockIdx.x % of.heads;
    const int lane = threadIdx.x % LANES;
    const index_t i = (index_t)blockIdx.y * ROWS + threadIdx.x / LANES;
    const index_t after = ((index_t)blockIdx.y + 1) * ROWS, end = of.is_causal ? min(of.keys, after) : of.keys;
    const acc_t factor = draw.scale;

    acc_t own[OWN], own_g[OWN], sum[OWN], delta = 0;
    unsigned drawn = 0;
    load_own(own_g, g, b, h, i, of.queries, of.value_width, lane, 1);
    load_own(sum, y, b, h, i, of.queries, of.value_width, lane, 1);
    for (int n = 0; n < OWN; n++) delta += own_g[n] * sum[n], sum[n] = 0;
    for (int apart = 1; apart < LANES; apart *= 2) delta += __shfl_xor_sync(WARP, delta, apart);
    load_own(own, q, b, h, i, of.queries, of.width, lane, scale);
    const acc_t logarithm = i < of.queries ? logarithms[blockIdx.x * of.queries + i] : infinity();
    if (i < of.queries && lane == 0) along[blockIdx.x * of.queries + i] = delta;

    for (index_t first = 0; first < end; first += TILE) {
        __syncthreads();
        load_tile(keys, k, b, h, first, of.keys, of.width);
        load_tile(values, v, b, h, first, of.keys, of.value_width);
        __syncthreads();
        for (int j = 0; j < TILE && first + j < end; j++) {
            bool kept = true;
            if (draw.threshold) {
                const int turn = (first + j) / STEP % LANES;
                if ((first + j) % (STEP * LANES) == 0) drawn = kept_from(draw, element(of, i, first + j + lane * STEP));
                kept = __shfl_sync(WARP, drawn, turn, LANES) >> j % STEP & 1;
            }
            const acc_t score = dot(own, keys[j], lane), d_weight = dot(own_g, values[j], lane);
            const acc_t weight = sees(of, mask, b, h, i, first + j) ? exp(score - logarithm) : 0;
            add(sum, weight * ((kept ? d_weight * factor : 0) - delta), keys[j], lane);
        }
    }
    store_own(sum, dq, b, h, i, of.queries, of.width, lane, scale);
}

// By keys: dk = scale dSᵀ q, dv = dropout(W)ᵀ g
extern "C" __global__ void __launch_bounds__(THREADS) attention_backward_keys(
    Heads q, Heads k, Heads v, Heads g, const acc_t* logarithms, const acc_t* along, Heads dk, Heads dv,
    Problem of, Mask mask, acc_t scale, Draw draw
) {
    __shared__ __align__(16) Tile queries, gradients;
    __shared__ acc_t logarithm[TILE], delta[TILE];
    const index_t b = blockIdx.x / of.heads, h = blockIdx.x % of.heads;
    const int lane = threadIdx.x % LANES;
    const index_t block = (index_t)blockIdx.y * ROWS, j = block + threadIdx.x / LANES;
    const index_t of_warp = block + threadIdx.x / 32 * (32 / LANES);  // the first of the warp's keys
    const index_t start = of.is_causal ? block / TILE * TILE : 0;     // earlier queries see none of these keys
    const acc_t factor = draw.scale;

    acc_t own_k[OWN], own_v[OWN], sum_k[OWN] = {}, sum_v[OWN] = {};
    unsigned drawn = 0;
    load_own(own_k, k, b, h, j, of.keys, of.width, lane, scale);
    load_own(own_v, v, b, h, j, of.keys, of.value_width, lane, 1);

    for (index_t first = start; first < of.queries; first += TILE) {
        __syncthreads();
        load_tile(queries, q, b, h, first, of.queries, of.width);
        load_tile(gradients, g, b, h, first, of.queries, of.value_width);
        for (int n = threadIdx.x; n < TILE; n += THREADS) {
            const bool there = first + n < of.queries;
            logarithm[n] = there ? logarithms[blockIdx.x * of.queries + first + n] : infinity();
            delta[n] = there ? along[blockIdx.x * of.queries + first + n] : 0;
        }
        __syncthreads();
        for (int n = 0; n < TILE && first + n < of.queries; n++) {
            const index_t i = first + n;
            bool kept = true;
            if (draw.threshold) {  // each thread draws for one of the next 16 queries and all keys of the warp
                if (n % 16 == 0) drawn = kept_from(draw, element(of, i + threadIdx.x % 16, of_warp));
                kept = __shfl_sync(WARP, drawn, n % 16) >> (j - of_warp) & 1;
            }
            const acc_t score = dot(own_k, queries[n], lane), d_weight = dot(own_v, gradients[n], lane);
            const acc_t weight = sees(of, mask, b, h, i, j) ? exp(score - logarithm[n]) : 0;
            add(sum_v, kept ? weight * factor : 0, gradients[n], lane);
            add(sum_k, weight * ((kept ? d_weight * factor : 0) - delta[n]), queries[n], lane);
        }
    }
    store_own(sum_k, dk, b, h, j, of.keys, of.width, lane, scale);
    store_own(sum_v, dv, b, h, j, of.keys, of.value_width, lane, 1);
}
