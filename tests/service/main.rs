//! The service and the command line, a module a behaviour, against a real
//! server on a real socket.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

mod admin;
mod backpressure;
mod batch_answers_in_order;
mod call_log;
mod certificates;
mod command_line;
mod configuration;
mod connection_age;
mod deadlines_and_cancellation;
mod drain;
mod fairness_and_overload;
mod frames;
mod grpc_web;
mod health_and_reflection;
mod health_probe;
mod hostile_peers;
mod interleavings;
mod listeners;
mod log;
mod malformed_requests;
mod memory_is_bounded;
mod metrics;
mod nobody_waits_any_more;
#[cfg(feature = "panic-injection")]
mod panics_are_contained;
mod protocol_manners;
mod server_life;
mod stalled_streams;
mod support;
mod tls;
mod unary_solve;
mod wrong_server;
