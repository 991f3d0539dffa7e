//! `cargo +nightly fuzz run text`: no text makes the parser panic, and a board
//! that it reads is read back from how it is written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loyd::puzzle::text::parse;

fuzz_target!(|input: (&str, Option<u8>)| {
    let (text, columns) = input;
    let columns = columns.map(usize::from);
    if let Ok(board) = parse(text, columns) {
        assert_eq!(parse(&board.to_string(), None), Ok(board));
    }
});
