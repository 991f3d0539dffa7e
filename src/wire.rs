//! The types of `proto/loyd/v1/solver.proto`: generated, but for
//! [`v1::BoardList`].

mod board_list;
pub mod codec;
mod packed_results;

/// The contract, version 1.
#[allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    unreachable_pub,
    rust_2018_idioms
)]
pub mod v1 {
    pub use super::board_list::{BoardList, BoardRef};
    pub use super::packed_results::{PackedResults, Varints};

    tonic::include_proto!("loyd.v1");
}

/// The contract's descriptor set, for reflection.
pub const DESCRIPTOR_SET: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/solver_descriptor.bin"));

/// The contract as it is generated without a type of ours, to compare with.
#[cfg(any(test, fuzzing))]
#[allow(
    missing_docs,
    dead_code,
    clippy::all,
    clippy::pedantic,
    unreachable_pub,
    rust_2018_idioms
)]
pub(crate) mod plain {
    include!(concat!(env!("OUT_DIR"), "/plain/loyd.v1.rs"));
}

/// That these bytes are the same message to [`v1::SolveBatchRequest`] and to
/// what is generated without a type of ours, whole and cut in two.
#[cfg(any(test, fuzzing))]
#[allow(
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what panics here is a finding"
)]
pub(crate) fn check_request(bytes: &[u8]) {
    use prost::Message;
    use prost::bytes::Buf;

    let generated = plain::SolveBatchRequest::decode(bytes);
    let middle = bytes.len() / 2;
    let pieces = bytes[..middle].chain(&bytes[middle..]);
    for ours in [
        v1::SolveBatchRequest::decode(bytes),
        v1::SolveBatchRequest::decode(pieces),
    ] {
        match (ours, &generated) {
            (Ok(ours), Ok(generated)) => {
                // Each message has one encoding.
                let encoded = ours.encode_to_vec();
                assert_eq!(encoded, generated.encode_to_vec());
                assert_eq!(encoded.len(), ours.encoded_len());
            }
            (Err(_), Err(_)) => {}
            (ours, generated) => panic!("{ours:?} is not {generated:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::check_request;

    /// A field: a tag, mostly the usual one, and what comes after it,
    /// well-formed or not.
    fn field(usual: u8, inner: BoxedStrategy<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
        let varint = prop_oneof![
            any::<u8>().prop_map(|byte| vec![byte & 0x7f]),
            (0_u8..9).prop_map(|tile| vec![0x80 | tile, 0]),
            proptest::collection::vec(0x80_u8.., 0..11).prop_map(|mut bytes| {
                bytes.push(1);
                bytes
            }),
        ]
        .boxed();
        let wrapped = move |tag: u8, content: Vec<u8>, lie: u8| {
            let length = u8::try_from(content.len() % 0x80).unwrap();
            let length = if lie == 0 {
                length.wrapping_add(1) & 0x7f
            } else {
                length
            };
            [vec![tag << 3 | 2, length], content].concat()
        };
        let tag = prop_oneof![16 => Just(usual), 4 => 1_u8..4, 1 => 0_u8..16];
        prop_oneof![
            8 => (tag.clone(), inner, 0_u8..40).prop_map(move |(tag, content, lie)| {
                wrapped(tag, content, lie)
            }),
            2 => (tag.clone(), proptest::collection::vec(0_u8..9, 0..12), 0_u8..40)
                .prop_map(move |(tag, tiles, lie)| wrapped(tag, tiles, lie)),
            2 => (tag.clone(), proptest::collection::vec(varint.clone(), 0..4), 0_u8..40)
                .prop_map(move |(tag, tiles, lie)| wrapped(tag, tiles.concat(), lie)),
            2 => (tag.clone(), varint).prop_map(|(tag, value)| [vec![tag << 3], value].concat()),
            1 => (tag, any::<[u8; 2]>()).prop_map(|(tag, [kind, byte])| {
                vec![tag << 3 | kind & 7, byte]
            }),
        ]
    }

    fn fields(usual: u8, inner: BoxedStrategy<Vec<u8>>) -> BoxedStrategy<Vec<u8>> {
        proptest::collection::vec(field(usual, inner), 0..5)
            .prop_map(|fields| fields.concat())
            .boxed()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// Unpacked tiles, split and merged messages, either form after the
        /// other, unknown fields, over-long varints, lengths that lie.
        #[test]
        fn a_list_is_read_as_generated_code_reads_it(
            request in fields(2, fields(1, fields(1, Just(vec![1, 2, 3, 0]).boxed())))
        ) {
            check_request(&request);
        }
    }
}
