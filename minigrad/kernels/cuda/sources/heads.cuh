// The memory layout of arrays of shape (batch, heads, rows, columns): strides in elements, 0 for an axis that
// is broadcast.

#pragma once
#include "common.cuh"

struct Heads {  // contiguous along the columns
    scalar_t* data;
    index_t batch, head, row;
    __device__ scalar_t* at(index_t b, index_t h, index_t i) const {
        return data + b * batch + h * head + i * row;
    }
};

struct Mask {  // true: may attend
    const bool* data;  // null: no mask
    index_t batch, head, row, column;
    __device__ bool allows(index_t b, index_t h, index_t i, index_t j) const {
        return !data || data[b * batch + h * head + i * row + j * column];
    }
};
