// GELU of x + bias (Hendrycks and Gimpel 2016): z Phi(z), Phi the normal distribution's cumulative function,
// or with `by_tanh` z s with s = (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), u = sqrt(2/pi) (z + 0.044715 z**3).

#include "columns.cuh"
#include "rows.cuh"

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
    const index_t first = (index_t)blockIdx.x * blockDim.x + threadIdx.x, all = (index_t)gridDim.x * blockDim.x;
    const index_t fours = in_fours(x) && in_fours(y) ? number / 4 : 0;
    for (index_t i = first; i < fours; i += all) {
        Four z = ((const Four*)x)[i];
        for (int k = 0; k < 4; k++) z.at[k] = gelu_of(z.at[k], by_tanh);
        ((Four*)y)[i] = z;
    }
    for (index_t i = fours * 4 + first; i < number; i += all) y[i] = gelu_of(x[i], by_tanh);
}

// dx = g gelu'(x)
extern "C" __global__ void gelu_backward(
    const scalar_t* x, const scalar_t* g, scalar_t* dx, index_t number, bool by_tanh
) {
    const index_t first = (index_t)blockIdx.x * blockDim.x + threadIdx.x, all = (index_t)gridDim.x * blockDim.x;
    const index_t fours = in_fours(x) && in_fours(g) && in_fours(dx) ? number / 4 : 0;
    for (index_t i = first; i < fours; i += all) {
        const Four z = ((const Four*)x)[i];
        Four d = ((const Four*)g)[i];
        for (int k = 0; k < 4; k++) d.at[k] = d.at[k] * gelu_slope(z.at[k], by_tanh);
        ((Four*)dx)[i] = d;
    }
    for (index_t i = fours * 4 + first; i < number; i += all) dx[i] = g[i] * gelu_slope(x[i], by_tanh);
}

// y = gelu(x + bias), by rows
extern "C" __global__ void gelu_bias(
    const scalar_t* x, const scalar_t* bias, scalar_t* y, index_t rows, index_t size, bool by_tanh
) {
    const index_t row = row_of_thread();
    if (row >= rows) return;
    x += row * size, y += row * size;
    for (index_t j = threadIdx.x; j < size; j += blockDim.x) y[j] = gelu_of(x[j] + (acc_t)bias[j], by_tanh);
}

// dx = g gelu'(x + bias); d bias is its sum over rows, written as partial sums (see columns.cuh)
extern "C" __global__ void gelu_bias_backward(
    const scalar_t* x, const scalar_t* bias, const scalar_t* g, scalar_t* dx, acc_t* d_bias, index_t rows,
    index_t size, bool by_tanh
) {
    __shared__ acc_t scratch[SHARES][32];
    const index_t column = (index_t)blockIdx.x * 32 + threadIdx.x;
    acc_t total = 0;
    if (column < size)
        for (index_t row = (index_t)blockIdx.y * SHARES + threadIdx.y; row < rows; row += (index_t)gridDim.y * SHARES) {
            const index_t i = row * size + column;
            const acc_t d = g[i] * gelu_slope(x[i] + (acc_t)bias[column], by_tanh);
            dx[i] = d;
            total += d;
        }
    total = column_sum(total, scratch);
    if (threadIdx.y == 0 && column < size) d_bias[blockIdx.y * size + column] = total;
}
