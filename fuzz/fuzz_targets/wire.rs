//! Any bytes as a request of either call are refused or answered as the
//! contract says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loyd::search::Workspace;
use loyd::service::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    thread_local! {
        static WORKSPACE: std::cell::RefCell<Workspace> = Workspace::new().into();
    }
    fuzzing::solve_request(bytes);
    WORKSPACE.with_borrow_mut(|workspace| fuzzing::batch_request(bytes, workspace));
});
