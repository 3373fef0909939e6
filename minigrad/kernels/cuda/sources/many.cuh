// Many arrays in one launch, since a launch costs a microsecond and most parameters are small. Each block
// computes CHUNK elements of one array. The struct is passed by value, so nothing is uploaded.

#pragma once
#include "common.cuh"

const int MANY = 64;
const int CHUNK = 4096;

struct Many {
    word_t source[MANY], target[MANY];  // addresses
    index_t size[MANY];                 // elements
    index_t chunk[MANY];                // blocks of the preceding arrays
    index_t number;                     // number of arrays
};

// The array that this block works on, and its range of elements.
struct Share {
    int array;
    index_t first, end;
};

__device__ inline Share share_of_block(const Many& of) {
    int array = 0;
    while (array + 1 < of.number && of.chunk[array + 1] <= blockIdx.x) array++;
    const index_t first = (blockIdx.x - of.chunk[array]) * CHUNK;
    return {array, first, min(first + CHUNK, of.size[array])};
}
