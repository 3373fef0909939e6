// CUDA C on a processor: enough of its language to compile a kernel as C++ and to run it a thread at a time.
//
// The threads of a block are fibers, which give way where they wait for one another (by setjmp: swapcontext asks
// the system for the signal mask each time, and most of an emulation would be that). Blocks, warps and the
// threads of a warp go on in orders drawn from a seed, a warp as far ahead of others as barriers allow: where one
// is missing, what it reads is not what it should be. Shared memory begins as 0xff in every byte (a NaN) in each
// block. A wait that never ends is found.

#pragma once
#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <type_traits>
#include <ucontext.h>
#include <vector>

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __launch_bounds__(threads)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static __attribute__((section("shared_memory")))

using std::erfc;
using std::exp;
using std::fmax;
using std::log;
using std::pow;
using std::sqrt;

using std::max;
using std::min;

extern char __start_shared_memory[] __attribute__((weak, visibility("hidden")));
extern char __stop_shared_memory[] __attribute__((weak, visibility("hidden")));

namespace emulator {

struct Three {
    unsigned x, y, z;
};

const size_t STACK = 1 << 15;

enum State { READY, AT_BARRIER, AT_WARP, DONE };

struct Fiber {
    ucontext_t beginning;
    jmp_buf place;
    std::unique_ptr<char[]> stack;
    bool begun = false;
    State state;
    Three thread;
    unsigned number, mask;
};

static Three block, block_size, grid_size;
static std::vector<Fiber> fibers;
static Fiber* current;
static jmp_buf scheduler;
static std::vector<uint64_t> slots;  // what each thread passes to others of its warp
static uint64_t seed;
static void (*entry)(void**);
static void** arguments;

static uint64_t random_number() {  // xorshift
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

static void wait(State state, unsigned mask = 0) {
    current->state = state, current->mask = mask;
    if (!_setjmp(current->place)) _longjmp(scheduler, 1);
}

static void body() {
    for (;;) {  // a block each
        entry(arguments);
        wait(DONE);
    }
}

static void begin(Fiber& fiber) {
    getcontext(&fiber.beginning);
    fiber.beginning.uc_stack.ss_sp = fiber.stack.get();
    fiber.beginning.uc_stack.ss_size = STACK;
    fiber.beginning.uc_link = nullptr;
    makecontext(&fiber.beginning, body, 0);
    fiber.begun = true;
    setcontext(&fiber.beginning);
}

// A thread goes on, to where it waits.
static void resume(Fiber& fiber) {
    current = &fiber;
    if (_setjmp(scheduler)) return;
    if (!fiber.begun) begin(fiber);
    _longjmp(fiber.place, 1);
}

static std::vector<size_t> shuffled(size_t from, size_t to) {
    std::vector<size_t> order;
    for (size_t i = from; i < to; i++) order.push_back(i);
    for (size_t i = order.size(); i > 1; i--) std::swap(order[i - 1], order[random_number() % i]);
    return order;
}

// A warp's threads to where each waits; true where any went on.
static bool advance(size_t warp) {
    const size_t from = warp * 32, to = std::min(from + 32, fibers.size());
    bool ran = false, together = to - from == 32;
    for (size_t i : shuffled(from, to))
        if (fibers[i].state == READY) {
            ran = true;
            resume(fibers[i]);
        }
    for (size_t i = from; i < to; i++) together &= fibers[i].state == AT_WARP && fibers[i].mask == 0xffffffffu;
    for (size_t i = from; together && i < to; i++) fibers[i].state = READY;
    return ran || together;
}

// All threads of one block, to their end; what is wrong, or null. A warp goes on alone, as far as it can.
static const char* run_block() {
    memset(__start_shared_memory, 0xff, __stop_shared_memory - __start_shared_memory);
    for (auto& fiber : fibers) fiber.state = READY;
    for (;;) {
        for (size_t warp : shuffled(0, (fibers.size() + 31) / 32))
            while (advance(warp)) {}
        size_t waiting = 0, done = 0;
        for (auto& fiber : fibers) waiting += fiber.state == AT_BARRIER, done += fiber.state == DONE;
        if (done == fibers.size()) return nullptr;
        if (waiting < fibers.size()) {
            for (auto& fiber : fibers) fiber.begun = false;  // each has a kernel that will not end
            return "threads wait for others that never come";
        }
        for (auto& fiber : fibers) fiber.state = READY;
    }
}

static const char* launch(void (*kernel)(void**), void** given, const unsigned* grid, const unsigned* size, uint64_t start) {
    entry = kernel, arguments = given, seed = start;
    grid_size = {grid[0], grid[1], grid[2]}, block_size = {size[0], size[1], size[2]};
    const size_t threads = (size_t)size[0] * size[1] * size[2];
    if (fibers.size() != threads) fibers = std::vector<Fiber>(threads);
    slots.assign(threads, 0);
    for (size_t i = 0; i < fibers.size(); i++) {
        auto& fiber = fibers[i];
        if (!fiber.stack) fiber.stack.reset(new char[STACK]);
        fiber.number = i;
        fiber.thread = {unsigned(i % size[0]), unsigned(i / size[0] % size[1]), unsigned(i / size[0] / size[1])};
    }
    const size_t blocks = (size_t)grid[0] * grid[1] * grid[2];
    for (size_t i : shuffled(0, blocks)) {
        block = {unsigned(i % grid[0]), unsigned(i / grid[0] % grid[1]), unsigned(i / grid[0] / grid[1])};
        if (const char* wrong = run_block()) return wrong;
    }
    return nullptr;
}

// What another thread of the warp has: all 32 pass, then each reads.
template <class T> T passed(unsigned mask, T value, unsigned from) {
    memcpy(&slots[current->number], &value, sizeof value);
    wait(AT_WARP, mask);
    T other;
    memcpy(&other, &slots[current->number / 32 * 32 + from], sizeof other);
    wait(AT_WARP, mask);
    return other;
}

// A parameter's kind and size, and what a pointer points to: to be held against what it is given.
template <class T> void describe(char*& out) {
    if constexpr (std::is_pointer_v<T>) {
        *out++ = '*';
        describe<std::remove_const_t<std::remove_pointer_t<T>>>(out);
    } else {
        const char kind = std::is_same_v<T, bool> ? 'b' : std::is_floating_point_v<T> ? 'f' : std::is_integral_v<T> ? (std::is_signed_v<T> ? 'i' : 'u') : 'V';
        out += sprintf(out, "%c%zu ", kind, sizeof(T));
    }
}

template <class... T> const char* signature(void (*)(T...)) {
    static char text[1024];
    char* out = text;
    (describe<T>(out), ...);
    return text;
}

template <class... T, size_t... I> void unpack(void (*kernel)(T...), void** given, std::index_sequence<I...>) {
    kernel(*(T*)given[I]...);
}

template <class... T> void call(void (*kernel)(T...), void** given) {
    unpack(kernel, given, std::index_sequence_for<T...>());
}

}  // namespace emulator

#define threadIdx (emulator::current->thread)
#define blockIdx emulator::block
#define blockDim emulator::block_size
#define gridDim emulator::grid_size

static inline void __syncthreads() { emulator::wait(emulator::AT_BARRIER); }

template <class T> T __shfl_xor_sync(unsigned mask, T value, int apart) {
    return emulator::passed(mask, value, emulator::current->number % 32 ^ apart);
}

template <class T> T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
    const unsigned lane = emulator::current->number % 32;
    return emulator::passed(mask, value, lane / width * width + from % width);
}

static inline unsigned __ballot_sync(unsigned mask, bool value) {
    unsigned bits = 0;
    for (int from = 0; from < 32; from++) bits |= (unsigned)emulator::passed(mask, value, from) << from;
    return bits;
}

static inline int __ffs(unsigned bits) { return __builtin_ffs(bits); }
static inline int atomicMin(int* place, int value) { int old = *place; return *place = min(old, value), old; }
static inline int atomicMax(int* place, int value) { int old = *place; return *place = max(old, value), old; }

static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned __int128)a * b >> 64;
}

template <class To, class From> To same_bits(From from) {
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

static inline float __int_as_float(int bits) { return same_bits<float>(bits); }
static inline float __uint_as_float(unsigned bits) { return same_bits<float>(bits); }
static inline unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }

static inline float half_to_float(unsigned short bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    float x = exponent == 31 ? (mantissa ? NAN : INFINITY)
            : exponent ? ldexpf(1024 + mantissa, exponent - 25) : ldexpf(mantissa, -24);
    return bits >> 15 ? -x : x;
}

static inline unsigned short float_to_half(float x) {
    const unsigned short sign = std::signbit(x) << 15;
    x = fabsf(x);
    if (x != x) return sign | 0x7e00;
    if (x >= 65520) return sign | 0x7c00;  // which rounds to infinity
    if (x < ldexpf(1, -14)) return sign | (unsigned short)nearbyintf(ldexpf(x, 24));
    int exponent;
    const float mantissa = frexpf(x, &exponent);  // in [1/2, 1)
    return sign | (unsigned short)(((exponent + 13) << 10) + (int)nearbyintf(ldexpf(mantissa, 11)));
}
