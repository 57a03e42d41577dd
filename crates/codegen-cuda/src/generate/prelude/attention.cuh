// A softmax that is updated tile by tile, of scores in registers.
K_INLINE float k_lowest() { return k_bits_float(0xff800000u); }

// The factor from weights for a maximum so far to those for a value in place of it. Weights for a maximum of minus infinity
// are zeros, and what they should have been is the factor: also their sum.
K_INLINE float k_rescale(float before, float now) {
    if (before == now) return now == k_lowest() ? k_bits_float(0x7fc00000u) : 1.0f;
    return k_exp(before - now);
}

// Narrows the keys that a row sees, `low` up to `high`, to those that a comparison leaves: it hides keys where
// `left < right`, or, if it is not STRICT, `left <= right`. Both sides are given at key 0; `left - right` RISES by one per
// key, or falls. Large sides say nothing: they could wrap on the way to a key.
template <bool STRICT, bool RISES> K_INLINE void k_narrow_keys(k_i64 left, k_i64 right, k_i64& low, k_i64& high) {
    const k_i64 limit = 1ll << 61;
    if (left <= -limit || left >= limit || right <= -limit || right >= limit) return;
    const k_i64 hidden = right - left + (STRICT ? 0 : 1);
    if (RISES) low = k_max(low, hidden);
    else high = k_min(high, 1 - hidden);
}

// What a split of the keys gives a row: its maximum, and for that maximum the sum of its weights and their mix in a column.
struct k_partial { float maximum, total, mix; };
K_INLINE k_partial k_no_keys() { return k_partial{k_lowest(), 0, 0}; }
K_INLINE k_partial k_merge(k_partial a, k_partial b) {
    const float now = k_max(a.maximum, b.maximum);
    const bool is_masked = now == k_lowest();
    const float of_a = is_masked ? 1.0f : k_rescale(a.maximum, now), of_b = is_masked ? 1.0f : k_rescale(b.maximum, now);
    return k_partial{now, a.total * of_a + b.total * of_b, a.mix * of_a + b.mix * of_b};
}

// The sums of a tile to shared memory, turned: as the left operand of products in registers.
template <class Tile> K_INLINE void k_leave_turned(Tile& tile, float* to) {
    K_UNROLL
    for (int r = 0; r < Tile::ROWS; ++r)
        K_UNROLL
        for (int c = 0; c < Tile::COLUMNS; ++c) to[Tile::column(c) * Tile::PITCH_A + Tile::row(r)] = tile.at(r, c);
}

// Of a thread's rows, the maximum so far and this thread's part of the sum of weights so far. The sums of weighted values
// are those for that maximum.
template <class Scores, class Mixed> struct k_online {
    static constexpr int ROWS = Scores::ROWS, SHARING = Scores::SHARING;
    float maxima[ROWS], totals[ROWS];
    K_INLINE void clear() {
        K_UNROLL
        for (int r = 0; r < ROWS; ++r) {
            maxima[r] = k_lowest();
            totals[r] = 0;
        }
    }
    // Scores become weights. While nothing but minus infinity was seen, weights are zeros: a later key may have another score.
    K_INLINE void join(Scores& scores, Mixed& mixed) {
        K_UNROLL
        for (int r = 0; r < ROWS; ++r) {
            float most = scores.at(r, 0);
            K_UNROLL
            for (int c = 1; c < Scores::COLUMNS; ++c) most = k_max(most, scores.at(r, c));
            K_UNROLL
            for (int mask = SHARING / 2; mask > 0; mask >>= 1) most = k_max(most, k_shuffle(most, mask));
            const float before = maxima[r], now = k_max(before, most);
            const bool is_masked = now == k_lowest();
            const float scale = is_masked ? 1.0f : k_rescale(before, now);
            float total = 0;
            K_UNROLL
            for (int c = 0; c < Scores::COLUMNS; ++c) {
                const float weight = is_masked ? 0.0f : k_exp(scores.at(r, c) - now);
                scores.at(r, c) = weight;
                total += weight;
            }
            maxima[r] = now;
            totals[r] = k_fused(totals[r], scale, total);
            K_UNROLL
            for (int c = 0; c < Mixed::COLUMNS; ++c) mixed.at(r, c) *= scale;
        }
    }
    // The maxima and sums of all rows to shared memory.
    K_INLINE void finish(float* row_maxima, float* row_sums) {
        K_UNROLL
        for (int r = 0; r < ROWS; ++r) {
            float total = totals[r];
            K_UNROLL
            for (int mask = SHARING / 2; mask > 0; mask >>= 1) total += k_shuffle(total, mask);
            if (k_thread() % SHARING == 0) {
                row_maxima[Scores::row(r)] = maxima[r];
                row_sums[Scores::row(r)] = total;
            }
        }
        k_sync();
    }
};
