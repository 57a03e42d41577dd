// Memory in vectors, and cooperation of the threads of a warp or a block.
template <class T, int N> struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) k_vector { T at[N]; };

template <class T> K_INLINE T k_shuffle(T x, int mask) {
    constexpr int words = (sizeof(T) + 3) / 4;
    union { T value; unsigned word[words]; } in, out;
    for (int i = 0; i < words; ++i) in.word[i] = 0;
    in.value = x;
    K_UNROLL
    for (int i = 0; i < words; ++i) out.word[i] = k_shuffle_word(in.word[i], mask);
    return out.value;
}

// The best value of an arg-reduction so far, with its index; `at` is -1 before the first.
template <class T> struct k_best { T value; k_i64 at; };
template <bool smallest, bool last, class T> K_INLINE k_best<T> k_better(k_best<T> a, k_best<T> b) {
    if (a.at < 0) return b;
    if (b.at < 0) return a;
    // In the order of indices, so that ties are decided as one thread would.
    k_best<T> first = a.at < b.at ? a : b, second = a.at < b.at ? b : a;
    return k_precedes<smallest, last>(second.value, first.value) ? second : first;
}

// Consecutive elements, by one access where they are aligned.
template <class T, int N> K_INLINE k_vector<T, N> k_load_vector(const T* from) {
    k_vector<T, N> x;
    if (((k_u64)from & (alignof(k_vector<T, N>) - 1)) == 0) {
        x = *(const k_vector<T, N>*)from;
    } else {
        K_UNROLL
        for (int i = 0; i < N; ++i) x.at[i] = from[i];
    }
    return x;
}
template <class T, int N> K_INLINE void k_store_vector(T* to, const k_vector<T, N>& x) {
    if (((k_u64)to & (alignof(k_vector<T, N>) - 1)) == 0) {
        *(k_vector<T, N>*)to = x;
    } else {
        K_UNROLL
        for (int i = 0; i < N; ++i) to[i] = x.at[i];
    }
}

template <class T, int N> K_INLINE k_vector<T, N> k_load_aligned(const T* from) { return *(const k_vector<T, N>*)from; }
template <class T, int N> K_INLINE void k_store_aligned(T* to, const k_vector<T, N>& x) { *(k_vector<T, N>*)to = x; }

// Quotient and remainder of numbers that are not negative, and that fit Index; nearly always in 32 bits.
template <class Index = k_i64> K_INLINE k_i64 k_split(k_i64 x, k_i64 by, k_i64& rest) {
    k_i64 quotient;
    if (sizeof(Index) == 4 || (((k_u64)x | (k_u64)by) >> 32) == 0) quotient = (unsigned)x / (unsigned)by;
    else quotient = x / by;
    rest = x - quotient * by;
    return quotient;
}

// Reductions of one value per thread over a warp or a block; every thread gets the result, in an order that does not vary.
#define K_OPERATION(name) struct k_op_##name { template <class T> static K_INLINE T of(T a, T b) { return k_##name(a, b); } };
K_OPERATION(add) K_OPERATION(mul) K_OPERATION(min) K_OPERATION(max) K_OPERATION(and) K_OPERATION(or)
#define K_BEST(name, smallest, last) \
    struct k_##name { template <class T> static K_INLINE T of(T a, T b) { return k_better<smallest, last>(a, b); } };
K_BEST(first_smallest, true, false) K_BEST(last_smallest, true, true)
K_BEST(first_largest, false, false) K_BEST(last_largest, false, true)
// `slots` has 16 bytes per warp.
template <class Op, int THREADS, class T> K_INLINE T k_reduce(T x, unsigned char* slots) {
    K_UNROLL
    for (int mask = 16; mask > 0; mask >>= 1) x = Op::of(x, k_shuffle(x, mask));
    if (THREADS <= 32) return x;
    T* const slot = (T*)slots;
    k_sync();
    if (k_thread() % 32 == 0) slot[k_thread() / 32] = x;
    k_sync();
    x = slot[0];
    K_UNROLL
    for (int i = 1; i < THREADS / 32; ++i) x = Op::of(x, slot[i]);
    return x;
}
