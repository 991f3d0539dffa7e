//! Any text is refused or a configuration, which reads back as it was written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loyd::cli::fuzzing;

fuzz_target!(|text: &str| fuzzing::config(text));
