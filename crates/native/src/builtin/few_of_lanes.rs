//! The first few elements of interleaved lanes: every element is compared with all of the best so far, for all lanes at
//! once and without branches; insertions lane by lane would mispredict.

use super::interrupt::{Interrupt, PIECE, Stopped};
use super::order::Ranked;

/// The number of lanes processed side by side.
pub(super) const LANES: usize = 16;
/// The maximum `k`: for larger ones, insertion into a list is cheaper.
pub(super) const MOST: usize = 8;

/// A number per lane.
type PerLane = [u32; LANES];

/// The best elements so far of each lane: their ranks in the order, and their indices.
#[derive(Default)]
pub(super) struct FewOfLanes {
    places: [PerLane; MOST],
    indices: [PerLane; MOST],
}

impl FewOfLanes {
    /// Finds the first `k` of the lanes at the start of rows of `stride` elements. Places and indices have 32 bits, and `k` is
    /// at most [`MOST`].
    pub(super) fn search<T: Ranked>(
        &mut self,
        interrupt: Interrupt<'_>,
        x: &[T],
        stride: usize,
        (k, largest): (usize, bool),
    ) -> Result<(), Stopped> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: this machine has the feature, as was just checked.
            return unsafe { self.search_avx2(interrupt, x, stride, (k, largest)) };
        }
        self.search_rows(interrupt, x, stride, (k, largest))
    }

    /// The same code in vectors of 256 bits.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn search_avx2<T: Ranked>(
        &mut self,
        interrupt: Interrupt<'_>,
        x: &[T],
        stride: usize,
        (k, largest): (usize, bool),
    ) -> Result<(), Stopped> {
        self.search_rows(interrupt, x, stride, (k, largest))
    }

    #[inline(always)]
    fn search_rows<T: Ranked>(
        &mut self,
        interrupt: Interrupt<'_>,
        x: &[T],
        stride: usize,
        (k, largest): (usize, bool),
    ) -> Result<(), Stopped> {
        for (row, elements) in x.chunks(stride).enumerate() {
            if row.is_multiple_of(PIECE / LANES) {
                interrupt.check()?;
            }
            let Some(elements) = elements.first_chunk::<LANES>() else {
                continue;
            };
            // Not `map`, which is not inlined into vector code.
            let mut places = [0; LANES];
            for (place, element) in places.iter_mut().zip(elements) {
                *place = element.place(largest) as u32;
            }
            self.insert(places, row as u32, k);
        }
        Ok(())
    }

    /// The index of the element at a rank of a lane.
    pub(super) fn index(&self, rank: usize, lane: usize) -> usize {
        self.indices[rank][lane] as usize
    }

    #[inline(always)]
    fn insert(&mut self, mut places: PerLane, row: u32, k: usize) {
        let filled = k.min(row as usize);
        let mut indices = [row; LANES];
        if filled == k {
            let last = &self.places[k - 1];
            let precedes = |any, (new, last): (&u32, &u32)| any | (new < last);
            if !places.iter().zip(last).fold(false, precedes) {
                return;
            }
        }
        // All ones starting at the rank at which the new element is inserted; the elements after it move by one.
        let mut moves = [0_u32; LANES];
        let ranks = self.places.iter_mut().zip(&mut self.indices);
        for (best, of_best) in ranks.take(filled) {
            for lane in 0..LANES {
                let precedes = u32::from(places[lane] < best[lane]);
                let mask = moves[lane] | 0_u32.wrapping_sub(precedes);
                moves[lane] = mask;
                swap_where(mask, &mut places[lane], &mut best[lane]);
                swap_where(mask, &mut indices[lane], &mut of_best[lane]);
            }
        }
        if filled < k {
            self.places[filled] = places;
            self.indices[filled] = indices;
        }
    }
}

/// Swaps two numbers if the mask is all ones, not if it is 0.
#[inline(always)]
fn swap_where(mask: u32, a: &mut u32, b: &mut u32) {
    let difference = (*a ^ *b) & mask;
    *a ^= difference;
    *b ^= difference;
}
