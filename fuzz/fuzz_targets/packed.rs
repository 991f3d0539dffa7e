//! Any bytes as packed boards of any shape are answered board by board, or
//! refused as a whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loyd::search::Workspace;
use loyd::service::fuzzing;

fuzz_target!(|input: (u8, u8, &[u8])| {
    thread_local! {
        static WORKSPACE: std::cell::RefCell<Workspace> = Workspace::new().into();
    }
    let (rows, columns, tiles) = input;
    // Mostly small numbers, which are shapes; a few that are none.
    let side = |value: u8| u32::from(if value < 240 { value % 5 } else { value });
    WORKSPACE.with_borrow_mut(|workspace| {
        fuzzing::packed(side(rows), side(columns), tiles, workspace);
    });
});
