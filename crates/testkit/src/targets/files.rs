//! Files of other formats: `.npy`, and relocatable objects.

use kiln_native::{LoadedCode, check_object};
use kiln_tensor::{read_npy, write_npy};

use super::{assert_plain, fail_with};

/// The maximum rank for which the written header has space.
const WRITABLE_RANK: usize = 64;

/// Bytes as a `.npy` file: rejected, or a tensor no larger than the file that is unchanged after it is written and read.
pub fn read_array(bytes: &[u8]) {
    let mut reader = bytes;
    let tensor = match read_npy(&mut reader) {
        Ok(tensor) => tensor,
        Err(error) => return assert_plain(&error.to_string()),
    };
    assert!(
        tensor.byte_len() <= bytes.len(),
        "{:?} of {} bytes out of {}",
        tensor.shape(),
        tensor.byte_len(),
        bytes.len()
    );
    let mut written = Vec::new();
    match write_npy(&tensor, &mut written) {
        Ok(()) => {}
        Err(_) if tensor.rank() > WRITABLE_RANK => return,
        Err(error) => fail_with(&format!("read, and not written: {error}")),
    }
    match read_npy(&mut &written[..]) {
        Ok(read) => assert!(
            read.bit_equal(&tensor),
            "another tensor after it was written"
        ),
        Err(error) => fail_with(&format!("written, and not read: {error}")),
    }
}

/// Bytes as a relocatable object for any machine: rejected, or laid out and linked at any address; one for this machine is
/// loaded. None of its code runs.
pub fn load_object(bytes: &[u8]) {
    for base in [0x7f12_3456_7000, 0, u64::MAX - 0xfff] {
        match check_object(bytes, base) {
            Ok(size) => assert!(size.is_multiple_of(4096), "{size}"),
            Err(error) => assert_plain(&error.to_string()),
        }
    }
    for entries in [&[][..], &["entry", "kernel_0", "add"]] {
        if let Err(error) = LoadedCode::load(bytes, entries) {
            assert_plain(&error.to_string());
        }
    }
}
