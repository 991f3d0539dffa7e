//! The command line of Loyd.

fn main() {}
