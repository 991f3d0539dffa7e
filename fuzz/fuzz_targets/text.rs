//! Any text is refused or a board, and a board's text reads back as the board.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loyd::puzzle::text::parse;

fuzz_target!(|input: (&str, u8)| {
    let (text, columns) = input;
    for columns in [None, Some(usize::from(columns))] {
        match parse(text, columns) {
            Ok(board) => {
                let written = board.to_string();
                assert_eq!(parse(&written, None).as_ref(), Ok(&board));
                // What is read in one pass is read alike in the general way.
                let spread = text.replace(',', " , ");
                if !text.contains('/') && text.contains([' ', ',']) {
                    assert_eq!(parse(&spread, columns).as_ref(), Ok(&board));
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
