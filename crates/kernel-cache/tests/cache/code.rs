//! Code and data are kept apart: content that no encoder vouched for is never read as code.

use std::time::Duration;

use kiln_kernel_cache::{
    Bundle, CacheKey, Collected, Content, DiskOptions, DiskTier, EntryKind, NotStored, Payload,
    SealKey, Tier,
};

fn kernel() -> CacheKey {
    CacheKey::of_fields(EntryKind::KERNEL, [("kernel", "a")])
}

/// Bytes that represent code; nothing runs them.
fn code() -> Payload {
    // SAFETY: nothing here decodes them.
    unsafe { Payload::code(b"code".to_vec()) }
}

#[test]
fn only_signed_code_is_stored_under_the_code_kind() {
    let folder = tempfile::tempdir().expect("there is room");
    let disk = DiskTier::at(folder.path(), DiskOptions::default());
    let planted = disk.put(&kernel(), Duration::ZERO, Content::data(b"code"));
    assert_eq!(planted, Err(NotStored::NotCode));
    disk.put(&kernel(), Duration::ZERO, code().content())
        .expect("there is room");
    let found = disk.get(&kernel()).expect("it is there").payload;
    assert!(found.content().is_code() && *found == *b"code");
    // Under another kind, code is data.
    let other = CacheKey::of_fields(EntryKind::PROGRAM, [("kernel", "a")]);
    disk.put(&other, Duration::ZERO, code().content())
        .expect("there is room");
    let found = disk.get(&other).expect("it is there").payload;
    assert!(!found.content().is_code());
}

#[test]
fn code_of_a_trusted_bundle_is_code() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("x.kiln-bundle");
    let entry = |content| Collected {
        key: kernel(),
        time: Duration::ZERO,
        content,
    };
    let key = SealKey::of_secret(&[1; 32]);
    let planted = Bundle::write(&path, b"", &[entry(Payload::data(b"code"))], Some(&key));
    let error = planted.expect_err("it is no code").to_string();
    assert!(error.contains("expected compiled code"), "{error}");
    Bundle::write(&path, b"", &[entry(code())], Some(&key)).expect("there is room");
    let is_code = |bundle: Bundle| {
        let found = bundle.get(&kernel()).expect("it is there").payload;
        assert_eq!(*found, *b"code");
        found.content().is_code()
    };
    assert!(!is_code(Bundle::open(&path).expect("it is whole")));
    assert!(is_code(
        Bundle::open_sealed(&path, &key).expect("it is the key")
    ));
    // SAFETY: nothing runs it.
    let trusted = unsafe { Bundle::open_trusted(&path) };
    assert!(is_code(trusted.expect("it is whole")));
}
