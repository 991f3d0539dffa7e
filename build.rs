//! Compiles the contract: the generated types for `src/wire.rs`, and the
//! descriptor set for reflection. Needs no `protoc`.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;

const PROTO: &str = "loyd/v1/solver.proto";
const INCLUDE: &str = "proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={INCLUDE}");
    let descriptors = protox::compile([PROTO], [INCLUDE])?;
    // `compile_fds` ignores `file_descriptor_set_path`.
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(
        out_dir.join("solver_descriptor.bin"),
        descriptors.encode_to_vec(),
    )?;
    // All that is generated, for the benchmark and the tests to compare with.
    let plain = out_dir.join("plain");
    fs::create_dir_all(&plain)?;
    configure()
        .out_dir(plain)
        .compile_fds(descriptors.clone())?;
    configure()
        .extern_path(".loyd.v1.BoardList", "crate::wire::v1::BoardList")
        .extern_path(".loyd.v1.PackedResults", "crate::wire::v1::PackedResults")
        // Responses are moved about; their boards need not be.
        .boxed(".loyd.v1.SolveBatchResponse.results.packed")
        .codec_path("crate::wire::codec::MessageCodec")
        .compile_fds(descriptors)?;
    Ok(())
}

fn configure() -> tonic_prost_build::Builder {
    tonic_prost_build::configure()
        // The tiles of a long packed message are read where they arrived.
        .bytes(".loyd.v1.PackedBoards.tiles")
}
