//! The format preserves content, and rejects everything else: every truncation, every flipped bit, arbitrary bytes.

use proptest::prelude::*;

use super::*;
use crate::key::EntryKind;
use crate::miss::MissCategory;

fn key() -> CacheKey {
    let kernel = "kernel @kernel() {\n}\n".repeat(20);
    CacheKey::of_fields(
        EntryKind::KERNEL,
        [("kernel", &*kernel), ("level", "avx2+fma")],
    )
}

fn file(content: &[u8]) -> Vec<u8> {
    let mut file =
        front(&key(), Duration::from_millis(12), content.len(), false).expect("it is small");
    let seal = seal(&file, content, None);
    file.extend(content);
    file.extend(seal);
    file
}

#[test]
fn entries_round_trip() {
    for content in [&b""[..], b"x", &[7; 5000]] {
        let (head, payload) = read(file(content), None).expect("it is whole");
        assert_eq!(&*payload, content);
        assert_eq!(head.compile_time, Duration::from_millis(12));
        assert_eq!(head.content_bytes, content.len() as u64);
        assert_eq!(head.fields, key().fields());
        matches(&head, &key()).expect("it is the entry of this key");
    }
}

#[test]
fn every_truncation_of_an_entry_is_a_miss() {
    let whole = file(b"some machine code");
    for length in 0..whole.len() {
        let miss = read(whole[..length].to_vec(), None).expect_err("it is short");
        assert!(matches!(miss, Miss::Length { .. }), "{length}: {miss}");
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert!(matches!(read(longer, None), Err(Miss::Length { .. })));
}

#[test]
fn every_flipped_bit_of_an_entry_is_a_miss() {
    let whole = file(b"some machine code");
    for bit in 0..8 * whole.len() {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let miss = read(damaged, None).expect_err("a bit is flipped");
        let category = miss.category();
        let is_seen = matches!(category, MissCategory::Corrupt | MissCategory::Skewed);
        assert!(is_seen, "bit {bit}: {miss}");
    }
}

#[test]
fn entries_of_other_formats_keys_and_kinds_are_refused_with_the_reason() {
    let spoil = |at: usize| {
        let mut bytes = file(b"code");
        bytes[at] += 1;
        read(bytes, None).expect_err("it is of another version")
    };
    insta::assert_snapshot!(spoil(8), @"expected format 2, found 3");
    insta::assert_snapshot!(spoil(0), @"the file is not a cache entry");

    let (head, _) = read(file(b"code"), None).expect("it is whole");
    let refused = |kind, digest, fields: &[(&'static str, &'static str)]| {
        let other = CacheKey::new(kind, digest, fields.iter().copied());
        matches(&head, &other)
            .expect_err("it is another key")
            .to_string()
    };
    let other = KeyDigest::from([0; 32]);
    insta::assert_snapshot!(refused(EntryKind::KERNEL, other, &[]), @"expected the entry of 0000000000000000000000000000000000000000000000000000000000000000, found that of cf741fbf416e5da5f0a6c6fe1344ab25e2cb6a0fb17ffa50151c0dc00d690814");
    insta::assert_snapshot!(refused(EntryKind::PROGRAM, head.digest, &[]), @r#"expected a program, found a "kernel""#);
    insta::assert_snapshot!(refused(EntryKind::KERNEL, head.digest, &[("level", "avx512")]), @"the entry differs in level, which its key does not distinguish");
}

#[test]
fn an_oversized_head_is_not_stored() {
    let many = (0..400).map(|number| (format!("field {number}"), "v".repeat(200)));
    let key = CacheKey::of_fields(EntryKind::KERNEL, many);
    let refused = front(&key, Duration::ZERO, 0, false);
    assert!(matches!(refused, Err(NotStored::TooLarge { .. })));
}

#[test]
fn the_format_is_frozen() {
    let key = CacheKey::of_fields(EntryKind::new("k"), [("f", "v")]);
    let front = front(&key, Duration::from_nanos(258), 2, false).expect("it is small");
    let hex: String = front[36..92]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    insta::assert_snapshot!(hex, @"4faf1ac3bdea8f4818000000000000000200000000000000010000006b020100000000000001000000660001000000765752ce22ea821fa2");
    insta::assert_snapshot!(blake3::hash(&front), @"7d40c48c8214b64c3a6299a4ec686f381bb403df228442aa26c1f81afd5ac86f");
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_a_miss_and_never_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        has_magic in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if has_magic {
            let prelude = file(b"");
            let n = bytes.len().min(12);
            bytes[..n].copy_from_slice(&prelude[..n]);
        }
        prop_assert!(read(bytes.clone(), None).is_err());
        prop_assert!(read_head(&bytes, u64::MAX).is_err());
        let _ = head::read(&bytes);
    }

    #[test]
    fn invalid_heads_with_a_valid_digest_are_a_miss(head in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut front = file(b"")[..PRELUDE].to_vec();
        front[44..48].copy_from_slice(&(head.len() as u32).to_le_bytes());
        front.extend(&head);
        let digest = blake3::hash(&front);
        front.extend(digest.as_bytes());
        let file_bytes = (front.len() + DIGEST) as u64;
        match read_head(&front, file_bytes) {
            Ok(_) => prop_assert!(head::read(&head).is_ok()),
            Err(miss) => prop_assert!(matches!(miss, Miss::Head { .. }), "{miss}"),
        }
    }
}
