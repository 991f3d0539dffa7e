//! Reading the files that an operator names.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The most bytes of such a file: far more than a configuration or a bundle of
/// certificates has, and little to hold.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads a whole file.
///
/// # Errors
/// Where the system refuses, and where the file is over [`MAX_FILE_BYTES`].
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One more than allowed tells that there are more.
    File::open(path)?
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {MAX_FILE_BYTES} bytes"),
        ));
    }
    Ok(bytes)
}
