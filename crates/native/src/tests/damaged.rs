//! Truncated objects, and objects with flipped bits or replaced bytes: the result is an error or an image, never worse.

use super::fixtures::{AARCH64, X86_64};
use crate::check_object;
use crate::error::NativeError;
use proptest::prelude::*;

/// Every step of loading before memory is allocated.
fn linked(bytes: &[u8]) -> Result<(), NativeError> {
    check_object(bytes, 0x7f12_3456_7000).map(drop)
}

#[test]
fn objects_cut_at_every_length_are_refused() {
    for whole in [X86_64, AARCH64] {
        for length in 0..whole.len() {
            let error = linked(&whole[..length]).unwrap_err();
            assert_eq!(error.code(), "E0850", "{length}: {error}");
        }
        linked(whole).unwrap();
    }
}

#[test]
fn objects_with_any_bit_flipped_are_linked_or_refused() {
    for whole in [X86_64, AARCH64] {
        let mut bytes = whole.to_vec();
        let mut refused = 0;
        for bit in 0..whole.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            refused += usize::from(linked(&bytes).is_err());
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        // Headers and tables are a large part of a small object.
        assert!(refused > 1000, "{refused}");
    }
}

proptest! {
    #[test]
    fn objects_with_bytes_replaced_are_linked_or_refused(
        arm in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(vec![0u8, 1, 4, 0x7f, 0x80, 0xff])), 1..12),
    ) {
        let mut bytes = if arm { AARCH64 } else { X86_64 }.to_vec();
        for (at, byte) in changes {
            let length = bytes.len();
            bytes[at.index(length)] = byte;
        }
        let _ = linked(&bytes);
    }
}
