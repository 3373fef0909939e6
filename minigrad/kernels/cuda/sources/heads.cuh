// How arrays of shape (batch, heads, rows, columns) lie in memory: steps are counted in elements, and a step
// of 0 means that all share what is there.

#pragma once
#include "common.cuh"

struct Heads {  // columns lie side by side
    scalar_t* data;
    index_t batch, head, row;
    __device__ scalar_t* at(index_t b, index_t h, index_t i) const {
        return data + b * batch + h * head + i * row;
    }
};

struct Mask {  // true: may attend
    const bool* data;  // null: everyone may attend to everything
    index_t batch, head, row, column;
    __device__ bool allows(index_t b, index_t h, index_t i, index_t j) const {
        return !data || data[b * batch + h * head + i * row + j * column];
    }
};
