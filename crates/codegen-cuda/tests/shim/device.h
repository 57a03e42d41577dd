// A GPU's block on the host: one fibre per thread, switched at barriers, shuffles and matrix instructions, in random order.
//
// It defines what the prelude's `device.cuh` does. Asynchronous copies land when they are issued or when they are waited
// for, as the test says; shared memory begins as NaNs; a barrier that some threads cannot reach ends the process.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define K_KERNEL extern "C"
#define K_PARAMETER const
#define K_INLINE inline
#define K_UNROLL
#define K_ROLLED
#define K_BOUNDS(threads)
#define K_SHARED

enum State { RUNNABLE, AT_BLOCK, AT_WARP, DONE };
struct Fibre {
    void* stack_pointer;
    unsigned char* stack;
    State state;
    int operation;
};
struct Copy { void* to; const void* from; int bytes; };
struct Product { float* sums; uint64_t a, b; bool a_transposed, b_transposed, is_bf16; };
struct Host {
    Fibre fibres[1024];
    int threads, current;
    void* scheduler;
    unsigned block, blocks;
    uint64_t random;
    bool late_copies;
    unsigned exchange[32][2][32][16];
    int parity[1024];
    std::vector<std::vector<Copy>> pending[1024];
    std::vector<std::vector<Product>> products[1024];
    // Whether copies have completed that matrix instructions of groups cannot see yet.
    bool unfenced[1024];
    void (*body)(const void*);
    const void* parameter;
};
static Host host;
alignas(1024) static unsigned char k_shared[256 << 10];

[[noreturn]] static void give_up(const char* why) {
    fprintf(stderr, "shim: %s\n", why);
    exit(3);
}
static uint64_t next_random() {
    host.random ^= host.random << 13;
    host.random ^= host.random >> 7;
    host.random ^= host.random << 17;
    return host.random;
}

// Saves the callee-saved registers on this stack and continues on another one.
extern "C" void switch_stacks(void** from, void* to);
asm(R"(
.text
.globl switch_stacks
switch_stacks:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

static void wait_as(State state, int operation) {
    Fibre& fibre = host.fibres[host.current];
    fibre.state = state;
    fibre.operation = operation;
    switch_stacks(&fibre.stack_pointer, host.scheduler);
}
static void fibre_main() {
    host.body(host.parameter);
    wait_as(DONE, 0);
    give_up("a thread that ended ran again");
}

// Whether all threads that are left in a range wait in one way; they may then run on.
static bool release(int first, int last, State state) {
    int operation = -1;
    bool any = false;
    for (int i = first; i < last; ++i) {
        const Fibre& fibre = host.fibres[i];
        if (fibre.state == DONE) continue;
        if (fibre.state != state) return false;
        if (operation >= 0 && operation != fibre.operation) give_up("threads of a warp or block wait at different operations");
        operation = fibre.operation;
        any = true;
    }
    if (any)
        for (int i = first; i < last; ++i)
            if (host.fibres[i].state == state) host.fibres[i].state = RUNNABLE;
    return any;
}

static const size_t STACK = 128 << 10;

static void run_block(int threads) {
    host.threads = threads;
    memset(k_shared, 0xff, sizeof k_shared);
    for (int i = 0; i < threads; ++i) {
        Fibre& fibre = host.fibres[i];
        if (!fibre.stack) fibre.stack = (unsigned char*)aligned_alloc(64, STACK);
        void** top = (void**)(fibre.stack + STACK) - 2;
        *top = (void*)fibre_main;
        fibre.stack_pointer = top - 6;
        fibre.state = RUNNABLE;
        host.parity[i] = 0;
        host.pending[i].clear();
        host.products[i].clear();
        host.unfenced[i] = false;
    }
    int order[1024];
    for (;;) {
        int n = 0;
        for (int i = 0; i < threads; ++i)
            if (host.fibres[i].state == RUNNABLE) order[n++] = i;
        if (n == 0) {
            bool any = false, left = false;
            for (int first = 0; first < threads; first += 32)
                any |= release(first, first + 32 < threads ? first + 32 : threads, AT_WARP);
            if (any) continue;
            if (release(0, threads, AT_BLOCK)) continue;
            for (int i = 0; i < threads; ++i) left |= host.fibres[i].state != DONE;
            if (left) give_up("some threads wait at a barrier that others do not reach");
            return;
        }
        for (int i = n - 1; i > 0; --i) {
            int other = (int)(next_random() % (uint64_t)(i + 1)), kept = order[i];
            order[i] = order[other];
            order[other] = kept;
        }
        for (int i = 0; i < n; ++i) {
            host.current = order[i];
            switch_stacks(&host.scheduler, host.fibres[order[i]].stack_pointer);
        }
    }
}

K_INLINE unsigned k_thread() { return (unsigned)host.current; }
// Counts the blocks that come by; tests put it into sources.
static uint64_t counted;
K_INLINE void count_once() { counted += host.current == 0; }
K_INLINE unsigned k_block() { return host.block; }
K_INLINE unsigned k_blocks() { return host.blocks; }
#ifdef SEEDED_NO_BARRIER
K_INLINE void k_sync() {}
#else
K_INLINE void k_sync() { wait_as(AT_BLOCK, 0); }
#endif
K_INLINE void k_sync_warp() { wait_as(AT_WARP, 1); }

// Words that the lanes of a warp show each other: each lane writes its own, all wait, all may read until they meet again.
static unsigned (*k_meet(const unsigned* words, int count, int operation))[16] {
    int me = host.current, &parity = host.parity[me];
    parity ^= 1;
    unsigned(*area)[16] = host.exchange[me / 32][parity];
    memcpy(area[me % 32], words, 4 * (size_t)count);
    for (int i = me / 32 * 32; i < me / 32 * 32 + 32; ++i)
        if (i >= host.threads || host.fibres[i].state == DONE) give_up("a warp operation without all its lanes");
    wait_as(AT_WARP, operation);
    return area;
}
K_INLINE unsigned k_shuffle_word(unsigned x, int mask) {
    int from = (host.current % 32) ^ mask;
    return k_meet(&x, 1, 100 + mask)[from][0];
}
K_INLINE void k_report(unsigned long long* word, unsigned long long fault) {
    if (fault < *word) *word = fault;
}
K_INLINE unsigned k_read_stop(const unsigned* word) { return *word; }
K_INLINE int k_leading_zeros(unsigned long long x) { return x ? __builtin_clzll(x) : 64; }

K_INLINE unsigned k_float_bits(float x) { unsigned y; memcpy(&y, &x, 4); return y; }
K_INLINE float k_bits_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
K_INLINE unsigned long long k_double_bits(double x) { unsigned long long y; memcpy(&y, &x, 8); return y; }
K_INLINE double k_bits_double(unsigned long long x) { double y; memcpy(&y, &x, 8); return y; }
K_INLINE float k_fused(float a, float b, float c) { return fmaf(a, b, c); }
K_INLINE double k_fused(double a, double b, double c) { return fma(a, b, c); }
K_INLINE int k_dot(int a, int b, int c) {
    unsigned sum = (unsigned)c;
    for (int i = 0; i < 32; i += 8) sum += (unsigned)((int)(signed char)(a >> i) * (signed char)(b >> i));
    return (int)sum;
}
K_INLINE float k_inverse(float x) { return 1.0f / x; }

K_INLINE float k_f16_float(unsigned short x) {
    unsigned sign = (unsigned)(x & 0x8000) << 16, exponent = x >> 10 & 31, fraction = x & 1023;
    if (exponent == 31) return k_bits_float(sign | 0x7f800000u | fraction << 13);
    float magnitude = ldexpf((float)(exponent ? fraction + 1024 : fraction), (int)(exponent ? exponent : 1) - 25);
    return k_bits_float(k_float_bits(magnitude) | sign);
}
K_INLINE unsigned short k_float_f16(float x) {
    unsigned bits = k_float_bits(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return 0x7fff;
    if (magnitude >= 0x47800000) return (unsigned short)(sign | 0x7c00);
    if (magnitude < 0x38800000)
        return (unsigned short)(sign | (unsigned)nearbyintf(ldexpf(k_bits_float(magnitude), 24)));
    unsigned rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (unsigned short)(sign | (rounded - 0x38000000) >> 13);
}
K_INLINE unsigned short k_float_bf16(float x) {
    unsigned bits = k_float_bits(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void land(const Copy& copy) {
    memset(copy.to, 0, 16);
    memcpy(copy.to, copy.from, (size_t)copy.bytes);
}
K_INLINE void k_copy_async(void* to, const void* from, int bytes) {
    if (((uintptr_t)to | (bytes ? (uintptr_t)from : 0)) & 15) give_up("an asynchronous copy of unaligned bytes");
    auto& groups = host.pending[host.current];
    if (groups.empty()) groups.emplace_back();
    Copy copy{to, from, bytes};
    if (!host.late_copies) {
        land(copy);
        copy.to = nullptr;
    }
    groups.back().push_back(copy);
}
K_INLINE void k_copy_commit() {
    auto& groups = host.pending[host.current];
    if (groups.empty()) groups.emplace_back();
    groups.emplace_back();
}
template <int N> K_INLINE void k_copy_wait() {
#ifndef SEEDED_NO_WAIT
    // The last group is not committed yet.
    auto& groups = host.pending[host.current];
    size_t committed = groups.empty() ? 0 : groups.size() - 1;
    size_t done = committed > N ? committed - N : 0;
    for (size_t i = 0; i < done; ++i)
        for (const Copy& copy : groups[i]) {
            if (copy.to) land(copy);
            host.unfenced[host.current] = true;
        }
    groups.erase(groups.begin(), groups.begin() + (long)done);
#endif
}

static void read_matrices(unsigned (&r)[4], const void* row, bool transposed) {
    if ((uintptr_t)row & 15) give_up("a row of a matrix that is not aligned");
    unsigned words[2];
    memcpy(words, &row, 8);
    unsigned(*area)[16] = k_meet(words, 2, transposed ? 201 : 200);
    int lane = host.current % 32;
    for (int i = 0; i < 4; ++i) {
        unsigned short pair[2];
        for (int e = 0; e < 2; ++e) {
            int at_row = transposed ? 2 * (lane % 4) + e : lane / 4, at_column = transposed ? lane / 4 : 2 * (lane % 4) + e;
            const unsigned short* from;
            memcpy(&from, area[8 * i + at_row], 8);
            pair[e] = from[at_column];
        }
        memcpy(&r[i], pair, 4);
    }
}
K_INLINE void k_load_matrices(unsigned (&r)[4], const void* row) { read_matrices(r, row, false); }
K_INLINE void k_load_transposed(unsigned (&r)[4], const void* row) { read_matrices(r, row, true); }

static float element(unsigned word, int half, bool is_bf16) {
    unsigned short bits = (unsigned short)(word >> 16 * half);
    return is_bf16 ? k_bits_float((unsigned)bits << 16) : k_f16_float(bits);
}
static void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, bool is_bf16) {
    unsigned words[6] = {a[0], a[1], a[2], a[3], b0, b1};
    unsigned(*area)[16] = k_meet(words, 6, is_bf16 ? 300 : 301);
    int lane = host.current % 32;
    for (int e = 0; e < 4; ++e) {
        int row = lane / 4 + 8 * (e / 2), column = 2 * (lane % 4) + e % 2;
        double sum = d[e];
        for (int k = 0; k < 16; ++k) {
            unsigned* left = area[row % 8 * 4 + k % 8 / 2];
            unsigned* right = area[column * 4 + k % 8 / 2];
            sum += (double)element(left[row / 8 + 2 * (k / 8)], k % 2, is_bf16) * element(right[4 + k / 8], k % 2, is_bf16);
        }
        d[e] = (float)sum;
    }
}
K_INLINE void k_multiply_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { multiply(d, a, b0, b1, true); }
K_INLINE void k_multiply_f16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { multiply(d, a, b0, b1, false); }

// Products of a group of warps. Each thread computes its own sums, when they are started or when they are waited for.
K_INLINE unsigned k_shared_address(const void* at) { return (unsigned)((const unsigned char*)at - k_shared); }
K_INLINE void k_fence_shared() { host.unfenced[host.current] = false; }
K_INLINE void k_group_begin() {
    for (int i = 0; i < host.threads; ++i)
        if (host.unfenced[i]) give_up("matrix instructions that do not see a copy");
}
K_INLINE void k_keep(float&) {}
// An element of a matrix that a descriptor names: 8 lines, 128 bytes apart, and the pieces of a line permuted by bits of the
// address.
static float described(uint64_t descriptor, bool transposed, int own, int k, bool is_bf16) {
    if (descriptor >> 62 != 1 || descriptor >> 46 & 0xffff) give_up("a descriptor of another layout");
    const unsigned begin = (descriptor & 0x3fff) << 4, lead = (descriptor >> 16 & 0x3fff) << 4, stride = (descriptor >> 32 & 0x3fff) << 4;
    const int line = transposed ? k : own, at = transposed ? own : k;
    unsigned address = begin + (unsigned)(line / 8) * stride + (unsigned)(line % 8) * 128 + (unsigned)(at % 64) * 2;
    if (transposed) address += (unsigned)(at / 64) * lead;
    address ^= (address >> 7 & 7) << 4;
    if (address + 2 > sizeof k_shared) give_up("a matrix beyond shared memory");
    unsigned short bits;
    memcpy(&bits, k_shared + address, 2);
    return element(bits, 0, is_bf16);
}
static void compute(const Product& product) {
    const int warp = host.current % 128 / 32, lane = host.current % 32;
    for (int e = 0; e < 64; ++e) {
        const int row = 16 * warp + lane / 4 + 8 * (e % 4 / 2), column = 8 * (e / 4) + 2 * (lane % 4) + e % 2;
        double sum = product.sums[e];
        for (int k = 0; k < 16; ++k)
            sum += (double)described(product.a, product.a_transposed, row, k, product.is_bf16) *
                   described(product.b, product.b_transposed, column, k, product.is_bf16);
        product.sums[e] = (float)sum;
    }
}
static void start(const Product& product) {
    auto& groups = host.products[host.current];
    if (groups.empty()) groups.emplace_back();
    if (host.late_copies) groups.back().push_back(product);
    else compute(product);
}
template <bool A, bool B> void k_group_multiply_bf16(float (&d)[64], uint64_t a, uint64_t b) { start({d, a, b, A, B, true}); }
template <bool A, bool B> void k_group_multiply_f16(float (&d)[64], uint64_t a, uint64_t b) { start({d, a, b, A, B, false}); }
K_INLINE void k_group_commit() { host.products[host.current].emplace_back(); }
template <int N> K_INLINE void k_group_wait() {
    // The last group is not committed yet.
    auto& groups = host.products[host.current];
    const size_t committed = groups.empty() ? 0 : groups.size() - 1, done = committed > N ? committed - N : 0;
    for (size_t i = 0; i < done; ++i)
        for (const Product& product : groups[i]) compute(product);
    groups.erase(groups.begin(), groups.begin() + (long)done);
}
