// The positions of the nonzero elements: each block counts those of its part, one block adds the counts up, each block places
// its own, and the columns that are left are cleared.
//
// s0: elements; s1: columns; from s2 on: the sizes. `K_MAGNITUDE` is the bits of an element that make it nonzero.
#define K_THREADS 256
#define K_PART 4096

// The sum of what the threads before this one give, and of what all give.
K_INLINE k_i64 k_sum_before(k_i64 own, k_i64* slots, k_i64& total) {
    unsigned me = k_thread();
    k_sync();
    slots[me] = own;
    k_sync();
    for (unsigned step = 1; step < K_THREADS; step *= 2) {
        k_i64 other = me >= step ? slots[me - step] : 0;
        k_sync();
        slots[me] += other;
        k_sync();
    }
    total = slots[K_THREADS - 1];
    return slots[me] - own;
}

K_KERNEL void K_BOUNDS(K_THREADS) kiln_0(K_PARAMETER kiln_params p) {
    K_SHARED
    K_ARGUMENTS
    const K_ELEMENT* const x = (const K_ELEMENT*)p.w[0];
    for (k_i64 t = k_block(); t < K_TASKS; t += k_blocks()) {
        k_i64 own = 0, total;
        for (k_i64 i = k_thread(); i < K_PART; i += K_THREADS) {
            k_i64 at = t * K_PART + i;
            own += at < s0 && (x[at] & K_MAGNITUDE) != 0;
        }
        k_sum_before(own, (k_i64*)k_shared, total);
        if (k_thread() == 0) ((k_i64*)K_SCRATCH)[t] = total;
    }
}

K_KERNEL void K_BOUNDS(K_THREADS) kiln_1(K_PARAMETER kiln_params p) {
    K_SHARED
    K_ARGUMENTS
    k_i64* const counts = (k_i64*)K_SCRATCH;
    k_i64 parts = (s0 + K_PART - 1) / K_PART, before = 0, total;
    for (k_i64 first = 0; first < parts; first += K_THREADS) {
        k_i64 t = first + k_thread();
        k_i64 within = k_sum_before(t < parts ? counts[t] : 0, (k_i64*)k_shared, total);
        if (t < parts) counts[t] = before + within;
        before += total;
    }
    if (k_thread() == 0) *(k_i64*)p.w[2] = before;
}

K_KERNEL void K_BOUNDS(K_THREADS) kiln_2(K_PARAMETER kiln_params p) {
    K_SHARED
    K_ARGUMENTS
    const K_ELEMENT* const x = (const K_ELEMENT*)p.w[0];
    k_i64* const indices = (k_i64*)p.w[1];
    const k_i64 sizes[K_RANK] = {K_SIZES};
    for (k_i64 t = k_block(); t < K_TASKS; t += k_blocks()) {
        k_i64 column = ((const k_i64*)K_SCRATCH)[t], total;
        for (k_i64 i = k_thread(); i < K_PART; i += K_THREADS) {
            k_i64 at = t * K_PART + i;
            bool found = at < s0 && (x[at] & K_MAGNITUDE) != 0;
            k_i64 place = column + k_sum_before(found, (k_i64*)k_shared, total);
            column += total;
            if (!found) continue;
            for (int axis = K_RANK - 1; axis >= 0; --axis) {
                k_i64 index;
                at = k_split(at, sizes[axis], index);
                indices[axis * s1 + place] = index;
            }
        }
    }
}

K_KERNEL void K_BOUNDS(K_THREADS) kiln_3(K_PARAMETER kiln_params p) {
    K_ARGUMENTS
    k_i64* const indices = (k_i64*)p.w[1];
    const k_i64 found = *(const k_i64*)p.w[2];
    for (k_i64 t = k_block(); t < K_TASKS; t += k_blocks()) {
        for (k_i64 i = k_thread(); i < K_PART; i += K_THREADS) {
            k_i64 column = t * K_PART + i;
            if (column < found || column >= s1) continue;
            for (int axis = 0; axis < K_RANK; ++axis) indices[axis * s1 + column] = 0;
        }
    }
}
