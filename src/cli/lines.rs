//! Lines of standard input.

use std::io::{self, BufRead, BufReader, Read};

/// The most bytes of a line: far more than any board, and a bound on what an
/// endless line can make us keep.
pub(super) const MAX_LINE_BYTES: usize = 64 << 10;

/// What is read from the system at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Reads lines without their ends, with a bound on their length.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    is_first: bool,
}

/// Why a line can't be read as text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LineError {
    #[error("the line is longer than {MAX_LINE_BYTES} bytes")]
    TooLong,
    #[error("the line is not valid UTF-8")]
    NotUtf8,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(reader: R) -> Lines<R> {
        Lines {
            reader: BufReader::with_capacity(BUFFER_BYTES, reader),
            line: Vec::new(),
            is_first: true,
        }
    }

    /// Whether the next line has to be waited for: what was answered so far
    /// should then be on its way.
    pub(super) fn would_wait(&self) -> bool {
        memchr::memchr(b'\n', self.reader.buffer()).is_none()
    }

    /// The next line, or `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Result<&str, LineError>>> {
        self.line.clear();
        if !self.take_buffered() && !self.take_across_buffers()? {
            return Ok(None);
        }
        if self.line.len() > MAX_LINE_BYTES {
            return Ok(Some(Err(LineError::TooLong)));
        }
        let mut text = match str::from_utf8(&self.line) {
            Ok(text) => text,
            Err(_) => return Ok(Some(Err(LineError::NotUtf8))),
        };
        if self.is_first {
            // Some editors and shells put a byte order mark before all text.
            text = text.strip_prefix('\u{feff}').unwrap_or(text);
            self.is_first = false;
        }
        Ok(Some(Ok(text)))
    }

    /// Takes a line that was read already as a whole; most were.
    fn take_buffered(&mut self) -> bool {
        let buffer = self.reader.buffer();
        let Some(end) = memchr::memchr(b'\n', buffer) else {
            return false;
        };
        self.line
            .extend_from_slice(buffer.get(..end).unwrap_or_default());
        self.reader.consume(end + 1);
        true
    }

    /// Takes a line that has to be waited for; false at the end.
    fn take_across_buffers(&mut self) -> io::Result<bool> {
        // One more than a line may have, and one for its end.
        let limit = MAX_LINE_BYTES as u64 + 2;
        if self
            .reader
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut self.line)?
            == 0
        {
            return Ok(false);
        }
        let complete = self.line.pop_if(|byte| *byte == b'\n').is_some();
        if !complete && self.line.len() > MAX_LINE_BYTES {
            skip_line(&mut self.reader)?;
        }
        Ok(true)
    }
}

/// Reads up to the end of the line and keeps nothing.
fn skip_line(reader: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = match reader.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if buffer.is_empty() {
            return Ok(());
        }
        match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                reader.consume(at + 1);
                return Ok(());
            }
            None => {
                let all = buffer.len();
                reader.consume(all);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Vec<Result<String, LineError>> {
        let mut lines = Lines::new(bytes);
        let mut read = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            read.push(line.map(str::to_owned));
        }
        read
    }

    #[test]
    fn the_last_line_needs_no_end() {
        assert_eq!(
            read(b"a\n\nb"),
            [Ok("a".into()), Ok(String::new()), Ok("b".into())]
        );
    }

    #[test]
    fn a_line_that_is_too_long_costs_itself_alone() {
        let longest = "x".repeat(MAX_LINE_BYTES);
        assert_eq!(read(longest.as_bytes()), [Ok(longest.clone())]);
        assert_eq!(
            read(format!("{longest}\n").as_bytes()),
            [Ok(longest.clone())]
        );
        for more in 1..4 {
            let text = format!("{longest}{}\nafter\n", "y".repeat(more));
            assert_eq!(
                read(text.as_bytes()),
                [Err(LineError::TooLong), Ok("after".into())]
            );
        }
        let endless = "z".repeat(5 * MAX_LINE_BYTES);
        assert_eq!(read(endless.as_bytes()), [Err(LineError::TooLong)]);
    }

    #[test]
    fn what_is_not_text_costs_its_line_alone() {
        assert_eq!(
            read(b"\xff\xfe\nafter"),
            [Err(LineError::NotUtf8), Ok("after".into())]
        );
        assert_eq!(
            read("\u{feff}first\n\u{feff}".as_bytes())[0],
            Ok("first".into())
        );
    }
}
