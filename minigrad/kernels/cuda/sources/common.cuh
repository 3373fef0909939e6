// Included by every source.
//
// SCALAR is the type of arrays: float, double, float16 or bfloat16. Arithmetic, statistics and sums are in
// ACCUMULATOR: double for arrays of double, else float. Both are compiler options. No system headers are
// included, so NVRTC compiles the sources wherever it is installed.

#pragma once

typedef long long index_t;
typedef unsigned long long word_t;

#ifdef __CUDACC__
__device__ inline float half_to_float(unsigned short bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

__device__ inline unsigned short float_to_half(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
#endif

// A 16-bit float, converted to and from float: sign, 5 bits of exponent, 10 of mantissa.
struct float16 {
    unsigned short bits;
    float16() = default;
    __device__ float16(float x) : bits(float_to_half(x)) {}
    __device__ operator float() const { return half_to_float(bits); }
};

// The upper half of a float: sign, 8 bits of exponent, 7 of mantissa; rounded to nearest, ties to even.
struct bfloat16 {
    unsigned short bits;
    bfloat16() = default;
    __device__ bfloat16(float x) {
        const unsigned all = __float_as_uint(x);
        bits = x != x ? 0x7fff : (all + 0x7fff + (all >> 16 & 1)) >> 16;
    }
    __device__ operator float() const { return __uint_as_float((unsigned)bits << 16); }
};

typedef SCALAR scalar_t;
typedef ACCUMULATOR acc_t;

// Four elements that are read or written at once, at an aligned address.
template <class T> struct alignas(4 * sizeof(T)) Four {
    T at[4];
};

template <class T> __device__ inline bool is_aligned(const T* place) { return (word_t)place % sizeof(Four<T>) == 0; }

// Up to four elements of x, `left` of which are left; zeros in place of the others.
template <class T> __device__ inline void load(const T* x, index_t left, acc_t out[4]) {
    if (left >= 4 && is_aligned(x)) {
        const Four<T> four = *(const Four<T>*)x;
        for (int k = 0; k < 4; k++) out[k] = (acc_t)four.at[k];
    } else {
        for (int k = 0; k < 4; k++) out[k] = k < left ? (acc_t)x[k] : 0;
    }
}

template <class T> __device__ inline void store(const acc_t in[4], T* y, index_t left) {
    if (left >= 4 && is_aligned(y)) {
        Four<T> four;
        for (int k = 0; k < 4; k++) four.at[k] = in[k];
        *(Four<T>*)y = four;
    } else {
        for (int k = 0; k < 4 && k < left; k++) y[k] = in[k];
    }
}

const unsigned WARP = 0xffffffffu;  // all 32 threads of a warp take part

__device__ inline acc_t infinity() { return __int_as_float(0x7f800000); }
__device__ inline acc_t not_a_number() { return __int_as_float(0x7fffffff); }
