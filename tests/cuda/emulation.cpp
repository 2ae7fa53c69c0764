// SPDX-License-Identifier: Apache-2.0
// A kernel that waits for no one is a plain loop over blocks and threads. In a cooperative one each
// thread of a block is a fiber with a stack of its own, all on the calling thread of the host; a
// fiber that must wait hands over to the next that need not.
#include "emulation.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifndef WITH_ASAN
#define WITH_ASAN 0
#endif
#if WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// The C library's contexts make system calls at every switch.
#if defined(__x86_64__) && !defined(EMULATION_USES_UCONTEXT)
#define WITH_UCONTEXT 0
#else
#define WITH_UCONTEXT 1
#include <ucontext.h>
#endif

namespace {

constexpr uint32_t WARP = 32, MOST_THREADS = 1024, MOST_WARPS = MOST_THREADS / WARP;
constexpr size_t STACK_BYTES = (size_t)256 << 10;
constexpr uint64_t CANARY = 0x5ca1ab1e0ddba115u;
constexpr size_t MOST_SHARED_BYTES = (size_t)48 << 10; // what a kernel may declare
constexpr size_t SHARED_GAP = 64, MOST_SHARED_ARRAYS = 64;
constexpr size_t EXCHANGE_BYTES = 64;
constexpr uint32_t MOST_COPIES = 32; // of a thread, under way

struct kernel_row {
    const char* name;
    emulation_function function;
    size_t argument_bytes;
    const uint32_t* most_threads;
    bool is_cooperative;
};

} // namespace

#define DECLARE(name, args, is_cooperative)                                                        \
    extern "C" const uint32_t berth_cuda_most_threads_##name;                                      \
    extern "C" void berth_cuda_##name(const args& arguments);                                      \
    static void call_##name(const void* arguments) {                                               \
        berth_cuda_##name(*static_cast<const args*>(arguments));                                   \
    }
BERTH_CUDA_KERNEL_MAP(DECLARE)
#undef DECLARE

namespace {

const kernel_row kernels[] = {
#define ROW(name, args, is_cooperative)                                                            \
    {"berth_cuda_" #name,                                                                          \
     call_##name,                                                                                  \
     sizeof(args),                                                                                 \
     &berth_cuda_most_threads_##name,                                                              \
     is_cooperative},
    BERTH_CUDA_KERNEL_MAP(ROW)
#undef ROW
};

// --- Fibers -------------------------------------------------------------------------------------

/// Where something that does not run goes on: a thread of the block, or the caller of
/// emulation_run().
struct fiber {
#if WITH_UCONTEXT
    ucontext_t context;
#else
    void* stack_pointer;
#endif
    const void* stack; ///< its lowest byte
    size_t stack_bytes;
    void* fake_stack; ///< what the address sanitizer keeps for it
};

enum waits_for : uint8_t { NOTHING, THE_BLOCK, THE_WARP, AN_EXCHANGE, NO_MORE };

/// How far the threads of one warp, or of the block, are on the way to their next meeting.
struct meeting {
    uint32_t arrived;
    waits_for kind;
    size_t size; ///< of what is exchanged
};

typedef unsigned char exchange_values[WARP][EXCHANGE_BYTES];

struct warp_state {
    meeting met;
    uint32_t turn; ///< which of `values` the next exchange uses: the last one may be being read
    exchange_values values[2];
};

struct copy_order {
    void* to;
    const void* from;
    uint32_t bytes;
    uint32_t group;
};

/// A thread's copies under way, the oldest first.
struct copy_queue {
    copy_order orders[MOST_COPIES];
    uint32_t count;
    uint32_t group; ///< of the next
};

struct shared_array {
    const void* key;
    size_t at;
};

/// One for each thread of the host that ran a kernel.
struct engine {
    emulation_place place;
    const char* name; ///< of the kernel
    emulation_function function;
    const void* arguments;
    bool is_cooperative;
    uint64_t random;

    fiber caller;
    fiber* fibers; ///< [MOST_THREADS]
    char* stacks;  ///< one after another
    fiber* previous;
    waits_for waiting[MOST_THREADS];
    uint32_t ended;
    meeting block;
    warp_state* warps;  ///< [MOST_WARPS]
    copy_queue* copies; ///< [MOST_THREADS]
    // Those that can run, a ring; the newest first makes a warp run far ahead of the others.
    uint16_t ready[MOST_THREADS];
    uint32_t first_ready, ready_count;
    bool is_newest_first;

    shared_array arrays[MOST_SHARED_ARRAYS];
    size_t array_count, shared_bytes, shared_end;
    alignas(64) unsigned char shared[MOST_SHARED_BYTES + MOST_SHARED_ARRAYS * 2 * SHARED_GAP];

    ~engine();
};

thread_local engine self;
std::atomic<uint64_t> runs;

void forbid(const void* data, size_t size) {
#if WITH_ASAN
    __asan_poison_memory_region(data, size);
#endif
    (void)data;
    (void)size;
}

void allow(const void* data, size_t size) {
#if WITH_ASAN
    __asan_unpoison_memory_region(data, size);
#endif
    (void)data;
    (void)size;
}

[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char* format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr,
                  "emulation: kernel %s, block %u of %u, %u threads: %s\n",
                  self.name,
                  self.place.block,
                  self.place.blocks,
                  self.place.threads,
                  text);
    abort();
}

uint64_t draw() {
    uint64_t mixed = (self.random += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

/// All numbers below `count` once, in an order that looks like none: (first + i * step) % count.
struct order {
    uint64_t count, next, step;
};

order order_make(uint64_t count) {
    order made = {count, draw() % count, 1 + draw() % count};
    for (;;) { // a step that shares no factor with count
        uint64_t a = made.step, b = count;
        while (b != 0) {
            const uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) return made;
        made.step = 1 + draw() % count;
    }
}

uint64_t order_next(order* walk) {
    const uint64_t now = walk->next;
    walk->next = (now + walk->step) % walk->count;
    return now;
}

#if !WITH_UCONTEXT
// Keeps what a function must keep, and goes on where `to` stopped.
extern "C" void emulation_switch(void** from, void* to);
__asm__(".text\n"
        ".type emulation_switch, @function\n"
        "emulation_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size emulation_switch, . - emulation_switch\n");
#endif

void go(fiber* from, fiber* to) {
    self.previous = from;
#if WITH_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_bytes);
#endif
#if WITH_UCONTEXT
    (void)swapcontext(&from->context, &to->context);
#else
    emulation_switch(&from->stack_pointer, to->stack_pointer);
#endif
#if WITH_ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, nullptr, nullptr);
#endif
}

fiber* pop_ready() {
    if (self.ready_count == 0) return &self.caller;
    uint32_t at = self.first_ready;
    self.ready_count--;
    if (self.is_newest_first)
        at = (at + self.ready_count) % MOST_THREADS;
    else
        self.first_ready = (at + 1) % MOST_THREADS;
    return &self.fibers[self.ready[at]];
}

void push_ready(uint32_t thread) {
    self.ready[(self.first_ready + self.ready_count++) % MOST_THREADS] = (uint16_t)thread;
    self.waiting[thread] = NOTHING;
}

/// Lets others run until someone makes `thread` ready.
void hand_over(uint32_t thread, waits_for what) {
    self.waiting[thread] = what;
    fiber* const own = &self.fibers[thread];
    fiber* const next = pop_ready();
    if (next != own) go(own, next);
    self.place.thread = thread;
}

void run_fiber() {
#if WITH_ASAN
    fiber* const caller = self.previous;
    __sanitizer_finish_switch_fiber(nullptr, &caller->stack, &caller->stack_bytes);
#endif
    for (;;) { // each round is a thread of another block
        const uint32_t thread =
            (uint32_t)((size_t)(static_cast<char*>(__builtin_frame_address(0)) - self.stacks) /
                       STACK_BYTES);
        self.place.thread = thread;
        self.function(self.arguments);
        if (self.copies[thread].count > 0) fail("thread %u has not waited for its copies", thread);
        self.ended++;
        hand_over(thread, NO_MORE);
    }
}

void fiber_make(fiber* made, char* stack) {
    memcpy(stack, &CANARY, sizeof CANARY);
    made->stack = stack;
    made->stack_bytes = STACK_BYTES;
#if WITH_UCONTEXT
    (void)getcontext(&made->context);
    made->context.uc_stack.ss_sp = stack;
    made->context.uc_stack.ss_size = STACK_BYTES;
    made->context.uc_link = nullptr;
    makecontext(&made->context, run_fiber, 0);
#else
    void** top = reinterpret_cast<void**>(stack + STACK_BYTES);
    *--top = nullptr; // where run_fiber() would return to: the stack is as a call leaves it
    *--top = reinterpret_cast<void*>(run_fiber);
    top -= 6; // the registers; a base pointer of 0 ends walks over the stack
    made->stack_pointer = top;
#endif
}

void engine_prepare() {
    if (self.fibers != nullptr) return;
    self.fibers = static_cast<fiber*>(calloc(MOST_THREADS, sizeof *self.fibers));
    self.warps = static_cast<warp_state*>(calloc(MOST_WARPS, sizeof *self.warps));
    self.copies = static_cast<copy_queue*>(calloc(MOST_THREADS, sizeof *self.copies));
    void* const stacks = mmap(nullptr,
                              MOST_THREADS * STACK_BYTES,
                              PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                              -1,
                              0);
    if (self.fibers == nullptr || self.warps == nullptr || self.copies == nullptr ||
        stacks == MAP_FAILED)
        fail("no memory for the threads");
    self.stacks = static_cast<char*>(stacks);
    for (uint32_t i = 0; i < MOST_THREADS; ++i)
        fiber_make(&self.fibers[i], self.stacks + i * STACK_BYTES);
}

engine::~engine() {
    allow(shared, sizeof shared);
    if (fibers == nullptr) return;
    allow(stacks, MOST_THREADS * STACK_BYTES);
    (void)munmap(stacks, MOST_THREADS * STACK_BYTES);
    free(fibers);
    free(warps);
    free(copies);
    fibers = nullptr;
}

// --- Meetings -----------------------------------------------------------------------------------

/// Waits until `count` threads, from number `first` on, are at `met`.
void meet(meeting* met, uint32_t first, uint32_t count, waits_for kind, size_t size) {
    const uint32_t thread = self.place.thread;
    if (!self.is_cooperative) fail("it waits, but is not listed as cooperative");
    if (met->arrived > 0 && (met->kind != kind || met->size != size))
        fail("thread %u waits for its warp in another way than the threads before it", thread);
    met->kind = kind;
    met->size = size;
    if (++met->arrived < count) {
        hand_over(thread, kind);
        return;
    }
    met->arrived = 0;
    const uint32_t turned = (uint32_t)(draw() % count);
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t other = first + (i + turned) % count;
        if (other != thread) push_ready(other);
    }
}

[[noreturn]] void report_deadlock() {
    uint32_t counts[NO_MORE + 1] = {};
    for (uint32_t i = 0; i < self.place.threads; ++i)
        counts[self.waiting[i]]++;
    fail("%u threads wait at sync_block(), %u at sync_warp(), %u in a warp's exchange, and %u have "
         "ended",
         counts[THE_BLOCK],
         counts[THE_WARP],
         counts[AN_EXCHANGE],
         counts[NO_MORE]);
}

// --- Blocks -------------------------------------------------------------------------------------

void shared_reset() {
    if (self.shared_end > 0) forbid(self.shared, self.shared_end);
    self.array_count = self.shared_bytes = self.shared_end = 0;
}

void run_block_plainly() {
    order threads = order_make(self.place.threads);
    for (uint32_t i = 0; i < self.place.threads; ++i) {
        self.place.thread = (uint32_t)order_next(&threads);
        self.function(self.arguments);
    }
}

void run_block_in_fibers() {
    self.ended = 0;
    self.block = {};
    for (uint32_t i = 0; i < self.place.threads / WARP; ++i)
        self.warps[i].met = {};
    self.first_ready = self.ready_count = 0;
    self.is_newest_first = draw() % 2 == 0;
    order threads = order_make(self.place.threads);
    for (uint32_t i = 0; i < self.place.threads; ++i)
        push_ready((uint32_t)order_next(&threads));
    go(&self.caller, pop_ready());
    if (self.ended < self.place.threads) report_deadlock();
    for (uint32_t i = 0; i < self.place.threads; ++i)
        if (memcmp(self.fibers[i].stack, &CANARY, sizeof CANARY) != 0)
            fail("thread %u used more stack than there is", i);
}

} // namespace

// --- For kernels --------------------------------------------------------------------------------

const emulation_place* emulation_thread(void) { return &self.place; }

void emulation_sync_block(void) { meet(&self.block, 0, self.place.threads, THE_BLOCK, 0); }

void emulation_sync_warp(void) {
    const uint32_t warp = self.place.thread / WARP;
    meet(&self.warps[warp].met, warp * WARP, WARP, THE_WARP, 0);
}

/// Puts a value beside those of the warp's other threads, which are there when this returns and
/// stay until the exchange after the next one. The last thread to arrive calls `join`, if there is
/// one, on all of them.
static exchange_values* exchange(const void* value,
                                 size_t size,
                                 void (*join)(exchange_values& values)) {
    if (!self.is_cooperative) fail("it exchanges values, but is not listed as cooperative");
    if (size > EXCHANGE_BYTES) fail("%zu bytes are too many for an exchange", size);
    const uint32_t thread = self.place.thread;
    warp_state* const warp = &self.warps[thread / WARP];
    exchange_values* const values = &warp->values[warp->turn];
    memcpy((*values)[thread % WARP], value, size);
    // The last to arrive starts the next turn, before anyone else goes on.
    if (warp->met.arrived == WARP - 1) {
        if (join != nullptr) join(*values);
        warp->turn ^= 1;
    }
    meet(&warp->met, thread / WARP * WARP, WARP, AN_EXCHANGE, size);
    return values;
}

void emulation_exchange(void* value, size_t size, uint32_t lane) {
    memcpy(value, (*exchange(value, size, nullptr))[lane % WARP], size);
}

void* emulation_shared(const void* key, size_t size) {
    for (size_t i = 0; i < self.array_count; ++i)
        if (self.arrays[i].key == key) return self.shared + self.arrays[i].at;
    self.shared_bytes += size;
    if (self.array_count == MOST_SHARED_ARRAYS || self.shared_bytes > MOST_SHARED_BYTES)
        fail("more than %zu shared arrays, or %zu bytes of them",
             MOST_SHARED_ARRAYS,
             MOST_SHARED_BYTES);
    const size_t at = self.shared_end;
    self.arrays[self.array_count++] = {key, at};
    self.shared_end = (at + size + 2 * SHARED_GAP - 1) / SHARED_GAP * SHARED_GAP;
    allow(self.shared + at, size);
    forbid(self.shared + at + size, self.shared_end - at - size);
    memset(self.shared + at, 0xff, size); // floats are no numbers until a thread writes them
    return self.shared + at;
}

float emulation_f16_to_f32(uint16_t bits) {
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 31u, fraction = bits & 0x3ffu;
    uint32_t wide = sign;
    float value;
    if (exponent == 31) {
        wide |= 0x7f800000u | fraction << 13;
    } else if (exponent > 0) {
        wide |= (exponent + 112) << 23 | fraction << 13;
    } else {
        value = (float)fraction * 0x1p-24f;
        memcpy(&wide, &value, sizeof wide);
        wide |= sign;
    }
    memcpy(&value, &wide, sizeof value);
    return value;
}

uint16_t emulation_f32_to_f16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    uint32_t size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return 0x7fffu;
    if (size >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); // rounds to beyond 65504
    if (size < 0x38800000u) { // below 2^-14: from 0.5 on, a float's last place is 2^-24
        float moved;
        memcpy(&moved, &size, sizeof moved);
        moved += 0.5f;
        memcpy(&size, &moved, sizeof size);
        return (uint16_t)(sign | (size - 0x3f000000u));
    }
    size += 0xfffu + (size >> 13 & 1u);
    return (uint16_t)(sign | (size - 0x38000000u) >> 13);
}

float emulation_bf16_to_f32(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

uint16_t emulation_f32_to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
    bits += 0x7fffu + (bits >> 16 & 1u);
    return (uint16_t)(bits >> 16);
}

// --- Matrices of halves -------------------------------------------------------------------------
// The places of elements are those of the PTX ISA's "Matrix Fragments for mma.m16n8k16", with its
// names: a register holds two elements, element i of a thread is half i % 2 of register i / 2.

namespace {

constexpr uint32_t MMA_M = 16, MMA_N = 8, MMA_K = 16;

/// What a thread brings to a product, and takes from it.
struct mma_part {
    uint16_t a[8];
    uint16_t b[4];
    float c[4];
    float (*to_f32)(uint16_t bits);
};
static_assert(sizeof(mma_part) <= EXCHANGE_BYTES, "an exchange holds a part");

/// Replaces every part's c. Sums are added for k ascending.
void join_mma(exchange_values& values) {
    float a[MMA_M][MMA_K], b[MMA_K][MMA_N];
    for (uint32_t laneid = 0; laneid < WARP; ++laneid) {
        mma_part part;
        memcpy(&part, values[laneid], sizeof part);
        const uint32_t groupID = laneid >> 2, threadID_in_group = laneid % 4;
        for (uint32_t i = 0; i < 8; ++i) {
            const bool is_upper = i < 2 || (i >= 4 && i < 6);
            const uint32_t row = is_upper ? groupID : groupID + 8;
            const uint32_t col = threadID_in_group * 2 + (i & 1) + (i < 4 ? 0 : 8);
            a[row][col] = part.to_f32(part.a[i]);
        }
        for (uint32_t i = 0; i < 4; ++i) {
            const uint32_t row = threadID_in_group * 2 + (i & 1) + (i < 2 ? 0 : 8);
            b[row][groupID] = part.to_f32(part.b[i]);
        }
    }
    for (uint32_t laneid = 0; laneid < WARP; ++laneid) {
        mma_part part;
        memcpy(&part, values[laneid], sizeof part);
        for (uint32_t i = 0; i < 4; ++i) {
            const uint32_t row = i < 2 ? laneid >> 2 : (laneid >> 2) + 8;
            const uint32_t col = laneid % 4 * 2 + (i & 1);
            for (uint32_t k = 0; k < MMA_K; ++k)
                part.c[i] += a[row][k] * b[k][col];
        }
        memcpy(values[laneid], &part, sizeof part);
    }
}

/// Rows of matrices [8, 8] become columns; a thread's two elements of a matrix are one register.
void turn_8x8(const uint16_t (&rows)[8][8], uint32_t laneid, uint32_t* to) {
    const uint16_t two[2] = {rows[laneid % 4 * 2][laneid / 4],
                             rows[laneid % 4 * 2 + 1][laneid / 4]};
    memcpy(to, two, sizeof two);
}

copy_queue* own_copies() {
    if (!self.is_cooperative) fail("it waits for copies, but is not listed as cooperative");
    return &self.copies[self.place.thread];
}

} // namespace

void emulation_multiply_matrices(float sums[4],
                                 const uint32_t a[4],
                                 const uint32_t b[2],
                                 float (*to_f32)(uint16_t bits)) {
    mma_part part;
    memset(&part, 0, sizeof part);
    memcpy(part.a, a, sizeof part.a);
    memcpy(part.b, b, sizeof part.b);
    memcpy(part.c, sums, sizeof part.c);
    part.to_f32 = to_f32;
    const uint32_t laneid = self.place.thread % WARP;
    memcpy(&part, (*exchange(&part, sizeof part, join_mma))[laneid], sizeof part);
    memcpy(sums, part.c, sizeof part.c);
}

uint32_t emulation_turn_matrix(uint32_t two) {
    const exchange_values& values = *exchange(&two, sizeof two, nullptr);
    uint16_t rows[8][8];
    for (uint32_t laneid = 0; laneid < WARP; ++laneid)
        memcpy(&rows[laneid / 4][laneid % 4 * 2], values[laneid], sizeof two);
    uint32_t turned;
    turn_8x8(rows, self.place.thread % WARP, &turned);
    return turned;
}

void emulation_load_turned_matrices(const void* row, uint32_t to[4]) {
    if ((uintptr_t)row % 16 != 0) fail("a matrix's row is not aligned");
    const exchange_values& values = *exchange(&row, sizeof row, nullptr);
    for (uint32_t m = 0; m < 4; ++m) {
        uint16_t rows[8][8];
        for (uint32_t r = 0; r < 8; ++r) {
            const void* at;
            memcpy(&at, values[m * 8 + r], sizeof at);
            memcpy(rows[r], at, sizeof rows[r]);
        }
        turn_8x8(rows, self.place.thread % WARP, &to[m]);
    }
}

void emulation_copy_later(void* to, const void* from, uint32_t bytes) {
    copy_queue* const own = own_copies();
    if ((uintptr_t)to % 16 != 0 || (uintptr_t)from % 16 != 0 || bytes > 16)
        fail("a copy of %u bytes that is not aligned", bytes);
    if (own->count == MOST_COPIES) fail("more than %u copies of a thread", MOST_COPIES);
    own->orders[own->count++] = {to, from, bytes, own->group};
}

void emulation_end_copies(void) { own_copies()->group++; }

void emulation_wait_for_copies(uint32_t groups) {
    copy_queue* const own = own_copies();
    uint32_t kept = 0;
    for (uint32_t i = 0; i < own->count; ++i) {
        const copy_order* const next = &own->orders[i];
        if (own->group - next->group <= groups) { // those of no group yet are not waited for
            own->orders[kept++] = *next;
            continue;
        }
        memcpy(next->to, next->from, next->bytes);
        memset(static_cast<char*>(next->to) + next->bytes, 0, 16 - next->bytes);
    }
    own->count = kept;
}

// --- For tests ----------------------------------------------------------------------------------

void emulation_run_function(const char* name,
                            emulation_function function,
                            bool is_cooperative,
                            uint64_t blocks,
                            uint32_t threads,
                            const void* arguments) {
    self.name = name;
    self.place = {0, threads, 0, (uint32_t)blocks};
    if (threads == 0 || threads > MOST_THREADS || threads % WARP != 0 || blocks > INT32_MAX)
        fail("no such grid: %llu blocks", (unsigned long long)blocks);
    if (blocks == 0) return;
    self.function = function;
    self.arguments = arguments;
    self.is_cooperative = is_cooperative;
    self.random = runs++ * 0xd1b54a32d192ed03u;
    if (is_cooperative) engine_prepare();
    order all = order_make(blocks);
    for (uint64_t i = 0; i < blocks; ++i) {
        self.place.block = (uint32_t)order_next(&all);
        if (is_cooperative)
            run_block_in_fibers();
        else
            run_block_plainly();
        shared_reset();
    }
}

void emulation_run(berth_cuda_kernel kernel,
                   uint64_t blocks,
                   uint32_t threads,
                   const void* arguments) {
    const kernel_row* row = &kernels[kernel];
    self.name = row->name;
    if (threads > *row->most_threads)
        fail("%u threads a block, it is made for at most %u", threads, *row->most_threads);
    emulation_run_function(
        row->name, row->function, row->is_cooperative, blocks, threads, arguments);
}

berth_cuda_kernel emulation_find(const char* name) {
    int i = 0;
    while (i < BERTH_CUDA_KERNEL_COUNT && strcmp(kernels[i].name, name) != 0)
        i++;
    return static_cast<berth_cuda_kernel>(i);
}

size_t emulation_argument_bytes(berth_cuda_kernel kernel) { return kernels[kernel].argument_bytes; }
