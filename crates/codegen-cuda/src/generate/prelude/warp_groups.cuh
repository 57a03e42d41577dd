// Products of 16-bit floats by groups of four warps (sm_90a), which read both operands from shared memory.
//
// A line of a tile is 128 bytes: 64 elements along the operand's fastest axis. Longer lines are cut into columns of LINES lines.
// Within a line, pieces of 16 bytes are permuted by the line's number (the 128-byte swizzle of the PTX ISA, "Strides" in
// "Asynchronous warpgroup-level matrix operation"); a tile begins at a multiple of 1024 bytes.

// The place of an element of a tile.
template <int LINES> K_INLINE int k_swizzled(int line, int at) {
    return at / 64 * (LINES * 64) + line * 64 + (at % 64 ^ line % 8 * 8);
}

// The descriptor of the matrix that begins at an address: 1024 bytes from eight lines to the next eight, and, if lines are not
// along the depth, the size of a column from one column to the next.
template <bool ALONG_DEPTH, int LINES> K_INLINE k_u64 k_descriptor(const void* at) {
    const k_u64 next = ALONG_DEPTH ? 16 : LINES * 128, address = k_shared_address(at);
    return (address & 0x3ffff) >> 4 | next >> 4 << 16 | (k_u64)(1024 >> 4) << 32 | (k_u64)1 << 62;
}

template <class T, bool A_DEPTH, bool B_DEPTH> struct k_group_matrix;
template <bool A_DEPTH, bool B_DEPTH> struct k_group_matrix<k_bf16, A_DEPTH, B_DEPTH> {
    static K_INLINE void multiply(float (&d)[64], k_u64 a, k_u64 b) { k_group_multiply_bf16<!A_DEPTH, !B_DEPTH>(d, a, b); }
};
template <bool A_DEPTH, bool B_DEPTH> struct k_group_matrix<k_f16, A_DEPTH, B_DEPTH> {
    static K_INLINE void multiply(float (&d)[64], k_u64 a, k_u64 b) { k_group_multiply_f16<!A_DEPTH, !B_DEPTH>(d, a, b); }
};

// BM x BN x BK per block, GROUPS groups along the rows; each multiplies 64 rows by 128 columns at a time.
template <class T, int BM, int BN, int BK, int GROUPS, bool A_DEPTH, bool B_DEPTH> struct k_group_tile {
    static constexpr int TM = BM / GROUPS, MI = TM / 64, NI = BN / 128;
    float sums[MI][NI][64];
    // Values that matrix instructions write asynchronously are neither read nor written across this point.
    K_INLINE void keep() {
        K_UNROLL
        for (int i = 0; i < MI; ++i)
            K_UNROLL
            for (int j = 0; j < NI; ++j)
                K_UNROLL
                for (int e = 0; e < 64; ++e) k_keep(sums[i][j][e]);
    }
    K_INLINE void clear() {
        K_UNROLL
        for (int i = 0; i < MI; ++i)
            K_UNROLL
            for (int j = 0; j < NI; ++j)
                K_UNROLL
                for (int e = 0; e < 64; ++e) sums[i][j][e] = 0;
        keep();
    }
    // A thread's sums: ROWS rows with COLUMNS columns each. SHARING consecutive threads have the same rows.
    static constexpr int ROWS = 2 * MI, COLUMNS = 32 * NI, SHARING = 4;
    static K_INLINE int row(int r) {
        const int thread = (int)k_thread();
        return thread / 128 * TM + 64 * (r / 2) + thread % 128 / 32 * 16 + thread % 32 / 4 + 8 * (r % 2);
    }
    static K_INLINE int column(int c) { return 8 * (c / 2) + 2 * ((int)k_thread() % 4) + c % 2; }
    K_INLINE float& at(int r, int c) { return sums[r / 2][c / 32][c % 32 / 2 * 4 + r % 2 * 2 + c % 2]; }
    // The 64 elements from `own` on along the rows (columns), and 16 along the depth.
    template <bool ALONG_DEPTH, int LINES> static K_INLINE k_u64 part(const T* tile, int own, int k) {
        return k_descriptor<ALONG_DEPTH, LINES>(ALONG_DEPTH ? tile + own * 64 + k : tile + own * LINES + k * 64);
    }
    // Starts the products of two tiles, and waits for those that were started before.
    K_INLINE void multiply(const T* a, const T* b) {
        const int m0 = (int)k_thread() / 128 * TM;
        k_group_begin();
        K_UNROLL
        for (int k = 0; k < BK; k += 16)
            K_UNROLL
            for (int i = 0; i < MI; ++i)
                K_UNROLL
                for (int j = 0; j < NI; ++j)
                    k_group_matrix<T, A_DEPTH, B_DEPTH>::multiply(
                        sums[i][j], part<A_DEPTH, A_DEPTH ? BM : BK>(a, m0 + 64 * i, k),
                        part<B_DEPTH, B_DEPTH ? BN : BK>(b, 128 * j, k));
        k_group_commit();
        k_group_wait<1>();
    }
    K_INLINE void finish() {
        k_group_wait<0>();
        keep();
    }
};
