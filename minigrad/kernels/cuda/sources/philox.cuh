// Random bits as a function of a key and a position: Philox 4x64-10 (Salmon et al. 2011, "Parallel Random
// Numbers: As Easy as 1, 2, 3"). minigrad.random draws the same bits.

#pragma once
#include "common.cuh"

#ifndef BITS
#define BITS 16  // the bits drawn for an element, 16 or 32
#endif

// The key of the draws, and how many of the 2**BITS equally likely values mean "drop".
struct Draw {
    word_t seed, stream, step, call;
    const word_t* counters;  // a step and a call in GPU memory, added to the two above; or null
    word_t first;            // the position, in the whole batch, of the first element
    word_t threshold;        // 0: no dropout
    double scale;            // of the elements that are kept: 1 / (1 - p)
    word_t bits;             // BITS
};

// The words that NumPy's generator returns from the counter (block, call, step, 0) on.
__device__ inline void philox(const Draw& draw, word_t block, word_t out[4]) {
    word_t a = block + 1;  // NumPy increments before it draws
    word_t b = draw.call, c = draw.step, d = 0;
    if (draw.counters) c += draw.counters[0], b += draw.counters[1];
    word_t k = draw.seed, m = draw.stream;
    for (int round = 0; round < 10; round++) {
        const word_t high = __umul64hi(0xD2E7470EE14C6C93ull, a), low = 0xD2E7470EE14C6C93ull * a;
        const word_t upper = __umul64hi(0xCA5A826395121157ull, c), lower = 0xCA5A826395121157ull * c;
        a = upper ^ b ^ k;
        b = lower;
        c = high ^ d ^ m;
        d = low;
        k += 0x9E3779B97F4A7C15ull;
        m += 0xBB67AE8584CAA73Bull;
    }
    out[0] = a, out[1] = b, out[2] = c, out[3] = d;
}

// Which of 16 elements are kept: bit i is 1 if element i is. It takes one block of the sequence, with 32 bits two.
__device__ inline unsigned kept_of_group(const Draw& draw, word_t group) {
    word_t words[BITS / 4];
    for (int n = 0; n < BITS / 16; n++) philox(draw, BITS / 16 * group + n, words + 4 * n);
    unsigned kept = 0;
    for (int i = 0; i < 16; i++)
        if ((words[i * BITS / 64] >> i * BITS % 64 & ((1ull << BITS) - 1)) >= draw.threshold) kept |= 1u << i;
    return kept;
}

// Which of the 16 elements from any index on are kept.
__device__ inline unsigned kept_from(const Draw& draw, word_t element) {
    element += draw.first;
    const unsigned skip = element % 16;
    unsigned kept = kept_of_group(draw, element / 16) >> skip;
    if (skip) kept |= kept_of_group(draw, element / 16 + 1) << (16 - skip);
    return kept & 0xffff;
}
