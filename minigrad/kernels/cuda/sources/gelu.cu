// GELU (Hendrycks and Gimpel 2016): z Phi(z), Phi the normal distribution's cumulative function,
// or with `by_tanh` z s with s = (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), u = sqrt(2/pi) (z + 0.044715 z**3).

#include "common.cuh"

constexpr double TWICE = 1.5957691216057308;  // 2 sqrt(2/pi)
constexpr double CUBIC = 0.044715;
constexpr double FAR = 1e4;  // limit of z**2: beyond it s is 0 or 1, and a larger z**2 may overflow
constexpr double ROOT_HALF = 0.7071067811865476;    // 1 / sqrt(2)
constexpr double DENSITY_AT_0 = 0.3989422804014327;  // 1 / sqrt(2 pi)

__device__ inline acc_t gelu_of(acc_t z, bool by_tanh) {
    if (by_tanh) return z / (1 + exp(-(acc_t)TWICE * (z + (acc_t)CUBIC * z * z * z)));
    return z * (acc_t)0.5 * erfc(-z * (acc_t)ROOT_HALF);
}

// s + z s (1 - s) 2u', or Phi(z) + z phi(z)
__device__ inline acc_t gelu_slope(acc_t z, bool by_tanh) {
    if (by_tanh) {
        const acc_t square = z * z > FAR ? (acc_t)FAR : z * z;
        const acc_t s = 1 / (1 + exp(-(acc_t)TWICE * z * (1 + (acc_t)CUBIC * square)));
        return s + z * s * (1 - s) * (acc_t)TWICE * (1 + 3 * (acc_t)CUBIC * square);
    }
    const acc_t density = (acc_t)DENSITY_AT_0 * exp((acc_t)-0.5 * z * z);
    return (acc_t)0.5 * erfc(-z * (acc_t)ROOT_HALF) + z * density;
}

// y = gelu(x)
extern "C" __global__ void gelu(const scalar_t* x, scalar_t* y, index_t number, bool by_tanh) {
    const index_t all = (index_t)gridDim.x * blockDim.x * 4;
    for (index_t i = ((index_t)blockIdx.x * blockDim.x + threadIdx.x) * 4; i < number; i += all) {
        acc_t z[4];
        load(x + i, number - i, z);
        for (int k = 0; k < 4; k++) z[k] = gelu_of(z[k], by_tanh);
        store(z, y + i, number - i);
    }
}

// dx = g gelu'(x)
extern "C" __global__ void gelu_backward(
    const scalar_t* x, const scalar_t* g, scalar_t* dx, index_t number, bool by_tanh
) {
    const index_t all = (index_t)gridDim.x * blockDim.x * 4;
    for (index_t i = ((index_t)blockIdx.x * blockDim.x + threadIdx.x) * 4; i < number; i += all) {
        acc_t z[4], d[4];
        load(x + i, number - i, z);
        load(g + i, number - i, d);
        for (int k = 0; k < 4; k++) d[k] *= gelu_slope(z[k], by_tanh);
        store(d, dx + i, number - i);
    }
}
