// The first elements of each lane when sorted: a block per lane keeps the best so far in order, and sorts them with those of
// the next part that precede the last of them.
//
// s0: elements of a lane; s1: elements from one to the next; s2: how many are kept; s3: the power of two above, and the
// elements of a part. An element's key is its place in the order, above its index: of equal ones the earlier is first.
#define K_THREADS 256

K_INLINE k_u32 k_place(K_ELEMENT bits) {
#if K_IS_FLOAT
    const K_ELEMENT sign = (K_ELEMENT)((K_ELEMENT)1 << (k_bits<K_ELEMENT> - 1)), magnitude = bits & (K_ELEMENT)~sign;
    // A NaN is first in both directions.
    if (magnitude > K_INFINITY) return 0;
    K_ELEMENT ascending = (bits & sign) != 0 && magnitude != 0 ? (K_ELEMENT)~bits : (K_ELEMENT)(magnitude | sign);
    return K_LARGEST ? (K_ELEMENT)~ascending : ascending;
#else
    k_u32 ascending = (k_u32)(K_SIGNED)bits ^ (k_is_signed<K_SIGNED> ? 0x80000000u : 0u);
    return K_LARGEST ? ~ascending : ascending;
#endif
}

// Sorts `count` keys, a power of two.
K_INLINE void k_sort(k_u64* keys, k_i64 count) {
    for (k_i64 length = 2; length <= count; length *= 2) {
        for (k_i64 apart = length / 2; apart > 0; apart /= 2) {
            k_sync();
            for (k_i64 i = k_thread(); i < count / 2; i += K_THREADS) {
                k_i64 left = 2 * apart * (i / apart) + i % apart, right = left + apart;
                k_u64 a = keys[left], b = keys[right];
                if ((a > b) == ((left & length) == 0)) {
                    keys[left] = b;
                    keys[right] = a;
                }
            }
        }
    }
    k_sync();
}

K_KERNEL void K_BOUNDS(K_THREADS) kiln_0(K_PARAMETER kiln_params p) {
    K_SHARED
    K_ARGUMENTS
    k_u64* const keys = (k_u64*)k_shared;
    k_u64* const any = keys + 2 * s3;
    for (k_i64 t = k_block(); t < K_TASKS; t += k_blocks()) {
        k_i64 inner, outer = k_split(t, s1, inner);
        const K_ELEMENT* const x = (const K_ELEMENT*)p.w[0] + outer * s0 * s1 + inner;
        K_ELEMENT* const values = (K_ELEMENT*)p.w[1] + outer * s2 * s1 + inner;
        k_i64* const indices = (k_i64*)p.w[2] + outer * s2 * s1 + inner;
        k_sync();
        for (k_i64 i = k_thread(); i < s3; i += K_THREADS) keys[i] = ~0ull;
        for (k_i64 first = 0; first < s0; first += s3) {
            k_sync();
            if (k_thread() == 0) *any = 0;
            k_sync();
            const k_u64 last = keys[s2 - 1];
            for (k_i64 i = k_thread(); i < s3; i += K_THREADS) {
                k_i64 at = first + i;
                k_u64 key = at < s0 ? (k_u64)k_place(x[at * s1]) << 32 | (k_u64)at : ~0ull;
                keys[s3 + i] = key;
                if (key < last) *any = 1;
            }
            k_sync();
            if (*any) k_sort(keys, 2 * s3);
        }
        k_sync();
        for (k_i64 i = k_thread(); i < s2; i += K_THREADS) {
            k_i64 at = (k_i64)(k_u32)keys[i];
            values[i * s1] = x[at * s1];
            indices[i * s1] = at;
        }
    }
}
