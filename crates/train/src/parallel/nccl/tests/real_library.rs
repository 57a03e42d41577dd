//! Opening libraries: one that is built for the test, and some that cannot be used.
#![allow(unsafe_code, reason = "it calls functions of a library")]

use crate::parallel::nccl::calls::{Communicator, Element};
use crate::parallel::nccl::id::UniqueId;
use crate::parallel::nccl::library::Library;
use std::path::{Path, PathBuf};
use std::process::Command;

/// NCCL's functions, with their types in `nccl.h`. Each checks its arguments.
const SOURCE: &str = r#"
#include <stddef.h>
typedef struct { char internal[128]; } Id;
static int communicators;
int ncclGetVersion(int *version) { *version = VERSION; return 0; }
int ncclGetUniqueId(Id *id) { for (int i = 0; i < 128; i++) id->internal[i] = 128 + i; return 0; }
int ncclCommInitRank(void **communicator, int size, Id id, int rank) {
    for (int i = 0; i < 128; i++) if (id.internal[i] != (char)(128 + i)) return 4;
    if (size != 3 || rank != 2) return 5;
    communicators++;
    *communicator = (void *)0x1234;
    return 0;
}
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *communicator, void *stream) {
    int good = from == (void *)0x4000 && to == from && op == 0 && communicator == (void *)0x1234 && stream == (void *)0x77;
    return good && ((type == 7 && count == 5) || (type == 8 && count == 6)) ? 0 : 4;
}
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *communicator, void *stream) {
    int good = from == (void *)0x4000 && to == from && communicator == (void *)0x1234 && stream == (void *)0x77;
    return good && type == 1 && count == 7 && root == 1 ? 0 : 4;
}
int ncclCommGetAsyncError(void *communicator, int *error) { *error = communicators == 1 ? 0 : 6; return 0; }
int ncclCommAbort(void *communicator) { communicators--; return 0; }
int ncclCommDestroy(void *communicator) { communicators--; return 0; }
const char *ncclGetErrorString(int result) { return result == 6 ? "remote process exited" : "invalid"; }
#ifndef WITHOUT_LAST_ERROR
const char *ncclGetLastError(void *communicator) { return "socket closed\n"; }
#endif
"#;

/// A library built from the source, with these definitions.
fn library(folder: &Path, definitions: &[&str]) -> PathBuf {
    let (source, library) = (folder.join("nccl.c"), folder.join("libnccl.so.2"));
    std::fs::write(&source, SOURCE).unwrap();
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-fsigned-char", "-o"])
        .args([&library, &source])
        .args(definitions);
    assert!(compiler.status().unwrap().success());
    library
}

#[test]
fn the_functions_get_what_the_header_says() {
    let folder = tempfile::tempdir().unwrap();
    let library = Library::load(&library(folder.path(), &["-DVERSION=21605"])).unwrap();
    let id = library.unique_id().unwrap();
    assert_eq!(id.as_bytes()[3], 131);
    let communicator = library.connect(&id, 2, 3).unwrap();
    assert_eq!(communicator, Communicator(0x1234));
    // SAFETY: the library does not access memory.
    unsafe {
        library
            .all_reduce(communicator, 0x4000, 5, Element::F32, 0x77)
            .unwrap();
        library
            .all_reduce(communicator, 0x4000, 6, Element::F64, 0x77)
            .unwrap();
        library.broadcast(communicator, 0x4000, 7, 1, 0x77).unwrap();
        library.asynchronous_error(communicator).unwrap();
        library.destroy(communicator);
        let error = library.asynchronous_error(communicator).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected an operation on the GPU to succeed, found NCCL's error 6 (remote process exited: socket closed); \
             NCCL_DEBUG=WARN makes it say more"
        );
    }
    let wrong = UniqueId::from_bytes([0; 128]);
    let error = library.connect(&wrong, 2, 3).unwrap_err().to_string();
    assert!(error.contains("ncclCommInitRank"), "{error}");
}

#[test]
fn a_library_that_is_old_or_incomplete_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |definitions: &[&str], found: &str| {
        let path = library(folder.path(), definitions);
        let error = Library::load(&path).err().unwrap().to_string();
        let all = [found, "NCCL 2.16 or later", "KILN_NCCL", "libnccl.so.2"];
        assert!(all.iter().all(|part| error.contains(part)), "{error}");
    };
    refused(&["-DVERSION=2804"], "found 2.8");
    refused(&["-DVERSION=21505"], "found 2.15");
    refused(
        &["-DVERSION=23003", "-DWITHOUT_LAST_ERROR"],
        "found a library without ncclGetLastError",
    );

    let text = folder.path().join("text");
    std::fs::write(&text, "not a library").unwrap();
    let error = Library::load(&text).err().unwrap().to_string();
    assert!(error.contains("cannot be opened"), "{error}");
}
