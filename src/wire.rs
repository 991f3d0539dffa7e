//! The types generated from `proto/loyd/v1/solver.proto`.

/// The contract, version 1.
#[allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    unreachable_pub,
    rust_2018_idioms
)]
pub mod v1 {
    tonic::include_proto!("loyd.v1");
}

/// The contract's descriptor set, for reflection.
pub const DESCRIPTOR_SET: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/solver_descriptor.bin"));
