//! The external symbols that an emitted object may need: `memcpy`, `memmove`, `memset`.
//!
//! The loader provides no others. An object that needs other symbols is a defect of code generation, which is detected
//! here before the object is stored.

use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSymbol as _};

use crate::error::LlvmError;

const PROVIDED: [&str; 3] = ["memcpy", "memmove", "memset"];

/// Checks that loaders provide every undefined symbol.
pub(crate) fn check_symbols(kernel: &str, bytes: &[u8]) -> Result<(), LlvmError> {
    let file = ElfFile64::<LittleEndian>::parse(bytes).map_err(|error| LlvmError::Diagnostics {
        kernel: kernel.to_owned(),
        diagnostics: vec![format!("the emitted object does not read back: {error}")],
    })?;
    for symbol in file.symbols().filter(|symbol| symbol.is_undefined()) {
        let name = symbol.name().unwrap_or("(no name)");
        if !name.is_empty() && !PROVIDED.contains(&name) {
            return Err(LlvmError::UndefinedSymbol {
                kernel: kernel.to_owned(),
                symbol: name.to_owned(),
            });
        }
    }
    Ok(())
}
