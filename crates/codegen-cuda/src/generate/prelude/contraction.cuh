// Tiles of a product in shared memory. An operand's tile is stored as it is in memory: along the depth, or along its rows
// (columns). Accumulators are in registers, and leave through a strip of rows in shared memory.

// Products of 16-bit floats by tensor cores: BM x BN x BK per block, WM x WN warps.
template <class T> struct k_matrix;
template <> struct k_matrix<k_bf16> {
    static K_INLINE void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { k_multiply_bf16(d, a, b0, b1); }
};
template <> struct k_matrix<k_f16> {
    static K_INLINE void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { k_multiply_f16(d, a, b0, b1); }
};
template <class T, int BM, int BN, int BK, int WM, int WN, bool A_DEPTH, bool B_DEPTH> struct k_matrix_tile {
    static constexpr int TM = BM / WM, TN = BN / WN, MI = TM / 16, NI = TN / 8;
    static constexpr int PITCH_A = (A_DEPTH ? BK : BM) + 8, PITCH_B = (B_DEPTH ? BK : BN) + 8;
    float sums[MI][NI][4];
    K_INLINE void clear() {
        K_UNROLL
        for (int i = 0; i < MI; ++i)
            K_UNROLL
            for (int j = 0; j < NI; ++j)
                K_UNROLL
                for (int e = 0; e < 4; ++e) sums[i][j][e] = 0;
    }
    // A thread's sums: ROWS rows with COLUMNS columns each. SHARING consecutive threads have the same rows.
    static constexpr int ROWS = 2 * MI, COLUMNS = 2 * NI, SHARING = 4;
    static K_INLINE int row(int r) {
        return (int)k_thread() / 32 / WN * TM + 16 * (r / 2) + (int)k_thread() % 32 / 4 + 8 * (r % 2);
    }
    static K_INLINE int column(int c) {
        return (int)k_thread() / 32 % WN * TN + 8 * (c / 2) + 2 * ((int)k_thread() % 4) + c % 2;
    }
    K_INLINE float& at(int r, int c) { return sums[r / 2][c / 2][r % 2 * 2 + c % 2]; }
    // Adds the products of PARTS left operands, in registers, and the right one at a depth.
    template <int PARTS> K_INLINE void multiply_by(const unsigned (&left)[PARTS][MI][4], const T* b, int k) {
        const int lane = (int)k_thread() % 32, n0 = (int)k_thread() / 32 % WN * TN;
        const int at = lane % 8, block = lane / 8;
        unsigned right[NI / 2][4];
        K_UNROLL
        for (int j = 0; j < NI / 2; ++j) {
            const int n = n0 + 16 * j;
            if (B_DEPTH) k_load_matrices(right[j], b + (n + at + 8 * (block / 2)) * PITCH_B + k + 8 * (block % 2));
            else k_load_transposed(right[j], b + (k + at + 8 * (block % 2)) * PITCH_B + n + 8 * (block / 2));
        }
        K_UNROLL
        for (int p = 0; p < PARTS; ++p)
            K_UNROLL
            for (int i = 0; i < MI; ++i)
                K_UNROLL
                for (int j = 0; j < NI; ++j)
                    k_matrix<T>::multiply(sums[i][j], left[p][i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
    }
    K_INLINE void multiply(const T* a, const T* b) {
        const int lane = (int)k_thread() % 32, m0 = (int)k_thread() / 32 / WN * TM;
        const int at = lane % 8, block = lane / 8;
        K_UNROLL
        for (int k = 0; k < BK; k += 16) {
            unsigned left[1][MI][4];
            K_UNROLL
            for (int i = 0; i < MI; ++i) {
                const int m = m0 + 16 * i;
                if (A_DEPTH) k_load_matrices(left[0][i], a + (m + at + 8 * (block % 2)) * PITCH_A + k + 8 * (block / 2));
                else k_load_transposed(left[0][i], a + (k + at + 8 * (block / 2)) * PITCH_A + m + 8 * (block % 2));
            }
            multiply_by(left, b, k);
        }
    }
    // The left operand is another tile's sums, each as PARTS numbers that add up to it.
    template <int PARTS, class Left> K_INLINE void multiply_sums(const Left& other, const T* b) {
        K_UNROLL
        for (int k = 0; k < BK; k += 16) {
            unsigned left[PARTS][MI][4];
            K_UNROLL
            for (int i = 0; i < MI; ++i)
                K_UNROLL
                for (int e = 0; e < 4; ++e) {
                    const float(&sums)[4] = other.sums[i][k / 8 + e / 2];
                    float x = sums[e % 2 * 2], y = sums[e % 2 * 2 + 1];
                    K_UNROLL
                    for (int p = 0; p < PARTS; ++p) {
                        const T low = k_narrow<T>::of(x), high = k_narrow<T>::of(y);
                        left[p][i][e] = (unsigned)low.bits | (unsigned)high.bits << 16;
                        x -= k_wide(low);
                        y -= k_wide(high);
                    }
                }
            multiply_by(left, b, k);
        }
    }
};

// Products that are added to sums: one after the other, and four of bytes in a word.
struct k_multiply_add {
    static K_INLINE float of(float a, float b, float c) { return k_fused(a, b, c); }
    static K_INLINE double of(double a, double b, double c) { return k_fused(a, b, c); }
    template <class T> static K_INLINE T of(T a, T b, T c) { return k_add(k_mul(a, b), c); }
};
struct k_dot_bytes {
    static K_INLINE int of(int a, int b, int c) { return k_dot(a, b, c); }
};

// Products in the registers of 16 x 16 threads.
template <class T, int BM, int BN, int BK, class Op = k_multiply_add> struct k_register_tile {
    static constexpr int TM = BM / 16, TN = BN / 16;
    static constexpr int PITCH_A = BM + 4, PITCH_B = BN + 4;
    T sums[TM][TN];
    K_INLINE void clear() {
        K_UNROLL
        for (int i = 0; i < TM; ++i)
            K_UNROLL
            for (int j = 0; j < TN; ++j) sums[i][j] = 0;
    }
    static K_INLINE int row(int i) { return i / 4 * 64 + (int)k_thread() / 16 * 4 + i % 4; }
    static K_INLINE int column(int j) { return j / 4 * 64 + (int)k_thread() % 16 * 4 + j % 4; }
    // Both operands along their rows and columns.
    K_INLINE void multiply(const T* a, const T* b) {
        K_UNROLL
        for (int k = 0; k < BK; ++k) {
            T left[TM], right[TN];
            K_UNROLL
            for (int i = 0; i < TM; i += 4) {
                k_vector<T, 4> x = *(const k_vector<T, 4>*)(a + k * PITCH_A + row(i));
                K_UNROLL
                for (int e = 0; e < 4; ++e) left[i + e] = x.at[e];
            }
            K_UNROLL
            for (int j = 0; j < TN; j += 4) {
                k_vector<T, 4> x = *(const k_vector<T, 4>*)(b + k * PITCH_B + column(j));
                K_UNROLL
                for (int e = 0; e < 4; ++e) right[j + e] = x.at[e];
            }
            K_UNROLL
            for (int i = 0; i < TM; ++i)
                K_UNROLL
                for (int j = 0; j < TN; ++j) sums[i][j] = Op::of(left[i], right[j], sums[i][j]);
        }
    }
    static constexpr int ROWS = TM, COLUMNS = TN, SHARING = 16;
    K_INLINE T& at(int r, int c) { return sums[r][c]; }
};

// The sums of rows first..first + ROWS of a tile, to a strip.
template <int ROWS, int PITCH, class Tile, class T> K_INLINE void k_leave(Tile& tile, T* strip, int first) {
    K_UNROLL
    for (int r = 0; r < Tile::ROWS; ++r) {
        const int m = Tile::row(r) - first;
        if (m < 0 || m >= ROWS) continue;
        K_UNROLL
        for (int c = 0; c < Tile::COLUMNS; ++c) strip[m * PITCH + Tile::column(c)] = tile.at(r, c);
    }
}

// The tile of a task: tiles of eight rows of tiles are neighbours, so that operands stay in the cache.
K_INLINE void k_tile_of(k_i64 t, k_i64 rows, k_i64 columns, k_i64& z, k_i64& row, k_i64& column) {
    k_i64 rest, within, first;
    z = k_split(t, rows * columns, rest);
    k_i64 band = k_split(rest, 8 * columns, within);
    first = 8 * band;
    k_i64 height = rows - first < 8 ? rows - first : 8;
    column = k_split(within, height, row);
    row += first;
}
