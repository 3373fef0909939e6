// Adam (Kingma and Ba 2015, algorithm 1) and AdamW (Loshchilov and Hutter 2019) over flat arrays.

#include "common.cuh"

struct Step {
    acc_t rate;    // lr / (1 - b1**t)
    acc_t c1;      // 1 - b1
    acc_t b2, c2;  // c2 = 1 - b2
    acc_t root;    // 1 / sqrt(1 - b2**t)
    acc_t eps;
    acc_t shrink;  // 1 - lr weight_decay (AdamW), or 1
    acc_t decay;   // weight_decay if it is added to the gradient (Adam), or 0
};

// m += c1 (d - m), v = b2 v + c2 d**2, p = shrink p - rate m / (root sqrt(v) + eps), d = g + decay p.
// Parameters and state are in acc_t.
extern "C" __global__ void adam(
    acc_t* p, const scalar_t* g, acc_t* m, acc_t* v, index_t number, const Step* hyperparameters
) {
    const Step step = *hyperparameters;
    const index_t all = (index_t)gridDim.x * blockDim.x;
    for (index_t i = (index_t)blockIdx.x * blockDim.x + threadIdx.x; i < number; i += all) {
        const acc_t x = p[i] * step.shrink, d = g[i] + step.decay * x;
        const acc_t first = m[i] + step.c1 * (d - m[i]);
        const acc_t second = step.b2 * v[i] + step.c2 * d * d;
        m[i] = first, v[i] = second;
        p[i] = x - step.rate * first / (step.root * sqrt(second) + step.eps);
    }
}
