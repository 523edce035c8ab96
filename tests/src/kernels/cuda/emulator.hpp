// Runs CUDA kernels on the CPU, one block after the other: where there is no GPU, this is how they are
// tested. The threads of a block are fibers that take turns at barriers and shuffles, from the first warp to
// the last or the other way around, so that a barrier that is missing shows in one of the two orders. Shared
// memory begins as not-a-numbers for every block; that of templates may not, for not every compiler puts it
// where it is asked to.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __shared__ static __attribute__((section("emulated_shared")))

extern "C" char __start_emulated_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_emulated_shared[] __attribute__((weak, visibility("hidden")));

struct Dimensions {
    unsigned x, y, z;
};

static Dimensions gridDim, blockDim, blockIdx, threadIdx;

namespace emulator {

enum class State { READY, AT_BARRIER, AT_SHUFFLE, DONE };

struct Fiber {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(65536);
    State state;
    Dimensions index;
};

inline std::vector<Fiber> fibers;
inline std::vector<unsigned> exchanged;
inline std::size_t running;
inline ucontext_t scheduler;
inline std::function<void()> body;
inline std::string failure;

inline void wait(State state) {
    const std::size_t self = running;
    fibers[self].state = state;
    swapcontext(&fibers[self].context, &scheduler);
}

inline void begin() {
    body();
    fibers[running].state = State::DONE;
}

inline bool all(std::size_t from, std::size_t to, State state) {
    for (std::size_t i = from; i < to; i++) {
        if (fibers[i].state != state) {
            return false;
        }
    }
    return true;
}

inline void release(std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; i++) {
        fibers[i].state = State::READY;
    }
}

// Lets the threads of a warp go on until each waits at a barrier, or is done, or nothing moves.
inline bool run_warp(std::size_t from, std::size_t to, bool backwards) {
    bool has_moved = false;
    for (bool moves = true; moves;) {
        moves = false;
        for (std::size_t n = from; n < to; n++) {
            running = backwards ? from + to - 1 - n : n;
            if (fibers[running].state == State::READY) {
                threadIdx = fibers[running].index;
                swapcontext(&scheduler, &fibers[running].context);
                moves = true;
            }
        }
        if (to - from == 32 && all(from, to, State::AT_SHUFFLE)) {
            release(from, to);
            moves = true;
        }
        has_moved |= moves;
    }
    return has_moved;
}

// One warp after the other goes as far ahead of the others as it can.
inline bool run_block(std::size_t threads, bool backwards) {
    for (std::size_t i = 0; i < threads; i++) {
        Fiber& fiber = fibers[i];
        fiber.state = State::READY;
        const unsigned n = i;
        fiber.index = {n % blockDim.x, n / blockDim.x % blockDim.y, n / blockDim.x / blockDim.y};
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.data();
        fiber.context.uc_stack.ss_size = fiber.stack.size();
        fiber.context.uc_link = &scheduler;
        makecontext(&fiber.context, begin, 0);
    }
    while (!all(0, threads, State::DONE)) {
        bool moved = false;
        const std::size_t warps = (threads + 31) / 32;
        for (std::size_t n = 0; n < warps; n++) {
            const std::size_t from = 32 * (backwards ? warps - 1 - n : n);
            moved |= run_warp(from, from + 32 < threads ? from + 32 : threads, backwards);
        }
        if (all(0, threads, State::AT_BARRIER)) {
            release(0, threads);
            moved = true;
        }
        if (!moved) {
            failure = "some threads wait at a barrier or a shuffle that others do not come to";
            return false;
        }
    }
    return true;
}

template <class T>
T exchange(unsigned mask, T value, unsigned from) {
    static_assert(sizeof(T) == sizeof(unsigned));
    if (mask != 0xffffffffu) {
        failure = "a shuffle without all lanes";
    }
    const std::size_t self = running;
    std::memcpy(&exchanged[self], &value, sizeof value);
    wait(State::AT_SHUFFLE);
    std::memcpy(&value, &exchanged[self / 32 * 32 + from], sizeof value);
    wait(State::AT_SHUFFLE);
    return value;
}

inline unsigned lane() { return running % 32; }

enum class Kind : int { INPUT, OUTPUT, COUNT, NUMBER };

struct Argument {
    Kind kind;
    unsigned element_size;
    void* value;
};

template <class P>
bool fits(const Argument& argument) {
    if constexpr (std::is_pointer_v<P>) {
        using Element = std::remove_pointer_t<P>;
        const Kind kind = std::is_const_v<Element> ? Kind::INPUT : Kind::OUTPUT;
        return argument.kind == kind && argument.element_size == sizeof(Element);
    } else {
        static_assert(std::is_same_v<P, unsigned> || std::is_same_v<P, float>);
        return argument.kind == (std::is_same_v<P, unsigned> ? Kind::COUNT : Kind::NUMBER);
    }
}

template <class... P, std::size_t... I>
bool run(
    void (*kernel)(P...), Dimensions grid, Dimensions block, const Argument* arguments, bool backwards,
    std::index_sequence<I...>
) {
    if (!(fits<P>(arguments[I]) && ...)) {
        failure = "an argument is not what the kernel's parameter is";
        return false;
    }
    const std::size_t threads = std::size_t(block.x) * block.y * block.z;
    if (threads == 0 || threads > 1024 || grid.x == 0 || grid.y == 0 || grid.z == 0) {
        failure = "a launch without threads, or with too many in a block";
        return false;
    }
    body = [&] { kernel(*static_cast<P*>(arguments[I].value)...); };
    fibers.resize(threads);
    exchanged.assign((threads + 31) / 32 * 32, 0);
    gridDim = grid;
    blockDim = block;
    const std::size_t blocks = std::size_t(grid.x) * grid.y * grid.z;
    for (std::size_t i = 0; i < blocks; i++) {
        const unsigned n = backwards ? blocks - 1 - i : i;
        blockIdx = {n % grid.x, n / grid.x % grid.y, n / grid.x / grid.y};
        if (__start_emulated_shared) {
            std::memset(__start_emulated_shared, 0xff, __stop_emulated_shared - __start_emulated_shared);
        }
        if (!run_block(threads, backwards)) {
            return false;
        }
    }
    return failure.empty();
}

// What went wrong, or null.
template <class... P>
const char* launch(
    void (*kernel)(P...), Dimensions grid, Dimensions block, const Argument* arguments, std::size_t count,
    bool backwards
) {
    failure.clear();
    if (count != sizeof...(P)) {
        failure = "the kernel has another number of parameters";
        return failure.c_str();
    }
    const bool is_right = run(kernel, grid, block, arguments, backwards, std::index_sequence_for<P...>{});
    return is_right ? nullptr : failure.c_str();
}

}  // namespace emulator

// Makes a kernel callable from outside. `sizes` are three of the grid and three of a block.
#define EMULATED(name, ...)                                                                             \
    extern "C" {                                                                                        \
    __attribute__((visibility("default"))) const char* name(                                            \
        const unsigned* sizes, const emulator::Argument* arguments, std::size_t count, bool backwards   \
    ) {                                                                                                 \
        const Dimensions grid{sizes[0], sizes[1], sizes[2]}, block{sizes[3], sizes[4], sizes[5]};       \
        return emulator::launch(__VA_ARGS__, grid, block, arguments, count, backwards);                 \
    }                                                                                                   \
    }

inline void __syncthreads() { emulator::wait(emulator::State::AT_BARRIER); }

template <class T>
T __shfl_sync(unsigned mask, T value, int from) {
    return emulator::exchange(mask, value, unsigned(from) % 32);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance) {
    return emulator::exchange(mask, value, emulator::lane() ^ unsigned(distance));
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance) {
    const unsigned lane = emulator::lane();
    return emulator::exchange(mask, value, lane < distance ? lane : lane - distance);
}

inline unsigned atomicAdd(unsigned* at, unsigned more) {
    const unsigned before = *at;
    *at += more;
    return before;
}

inline float __int_as_float(int bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
