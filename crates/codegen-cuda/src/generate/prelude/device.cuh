// What only the device has: threads, barriers, shuffles, shared memory, conversions and matrix instructions as PTX. The
// tests' host shim defines the same names.
#define K_KERNEL extern "C" __global__
#define K_PARAMETER const __grid_constant__
#define K_INLINE __device__ __forceinline__
#define K_BOUNDS(threads) __launch_bounds__(threads)
#define K_UNROLL _Pragma("unroll")
#define K_ROLLED _Pragma("unroll 1")
#define K_SHARED extern __shared__ __align__(1024) unsigned char k_shared[];

K_INLINE unsigned k_thread() { return threadIdx.x; }
K_INLINE unsigned k_block() { return blockIdx.x; }
K_INLINE unsigned k_blocks() { return gridDim.x; }
K_INLINE void k_sync() { __syncthreads(); }
K_INLINE void k_sync_warp() { __syncwarp(); }
K_INLINE unsigned k_shuffle_word(unsigned x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
K_INLINE void k_report(unsigned long long* word, unsigned long long fault) { atomicMin(word, fault); }
K_INLINE unsigned k_read_stop(const unsigned* word) { return *(const volatile unsigned*)word; }
K_INLINE int k_leading_zeros(unsigned long long x) { return __clzll((long long)x); }

K_INLINE unsigned k_float_bits(float x) { return __float_as_uint(x); }
K_INLINE float k_bits_float(unsigned x) { return __uint_as_float(x); }
K_INLINE unsigned long long k_double_bits(double x) { return (unsigned long long)__double_as_longlong(x); }
K_INLINE double k_bits_double(unsigned long long x) { return __longlong_as_double((long long)x); }
K_INLINE float k_fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
K_INLINE double k_fused(double a, double b, double c) { return __fma_rn(a, b, c); }
// c plus the products of four signed bytes.
K_INLINE int k_dot(int a, int b, int c) {
    int d;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
K_INLINE float k_inverse(float x) { return __frcp_rn(x); }

K_INLINE float k_f16_float(unsigned short x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}
K_INLINE unsigned short k_float_f16(float x) {
    unsigned short y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
K_INLINE unsigned short k_float_bf16(float x) {
    unsigned short y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

// 16 bytes from global to shared memory, asynchronously; with `bytes` 0 zeros are written and nothing is read.
K_INLINE void k_copy_async(void* to, const void* from, int bytes) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
}
K_INLINE void k_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> K_INLINE void k_copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// Four 8 x 8 matrices of 16-bit elements; each lane names one row of 16 bytes.
K_INLINE void k_load_matrices(unsigned (&r)[4], const void* row) {
    unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
K_INLINE void k_load_transposed(unsigned (&r)[4], const void* row) {
    unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

// d += a * b for a 16 x 16 and a 16 x 8 matrix of 16-bit floats, sums in f32.
K_INLINE void k_multiply_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
K_INLINE void k_multiply_f16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Groups of four warps (sm_90a). Matrix instructions read shared memory asynchronously, once the threads that wrote it passed this
// fence; their sums are not to be touched between the beginning and the wait.
K_INLINE unsigned k_shared_address(const void* at) { return (unsigned)__cvta_generic_to_shared(at); }
K_INLINE void k_fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
K_INLINE void k_group_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
K_INLINE void k_group_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> K_INLINE void k_group_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
K_INLINE void k_keep(float& x) { asm volatile("" : "+f"(x)::"memory"); }

// d += a * b for a 64 x 16 and a 16 x 128 matrix of 16-bit floats by their descriptors, sums in f32; each is stored along the
// depth, or TRANSPOSED.
#define K_NAMES_64 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
    "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, " \
    "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, " \
    "%62, %63"
#define K_SUMS_8(d, i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define K_GROUP_MULTIPLY(name, type) \
    template <bool A_TRANSPOSED, bool B_TRANSPOSED> \
    K_INLINE void name(float (&d)[64], unsigned long long a, unsigned long long b) { \
        asm volatile("{ .reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type \
                     " {" K_NAMES_64 "}, %64, %65, p, 1, 1, %66, %67; }" \
                     : K_SUMS_8(d, 0), K_SUMS_8(d, 8), K_SUMS_8(d, 16), K_SUMS_8(d, 24), K_SUMS_8(d, 32), K_SUMS_8(d, 40), \
                       K_SUMS_8(d, 48), K_SUMS_8(d, 56) \
                     : "l"(a), "l"(b), "n"((int)A_TRANSPOSED), "n"((int)B_TRANSPOSED)); \
    }
K_GROUP_MULTIPLY(k_group_multiply_bf16, "bf16")
K_GROUP_MULTIPLY(k_group_multiply_f16, "f16")
