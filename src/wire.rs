//! The types of `proto/loyd/v1/solver.proto`: generated, but for
//! [`v1::BoardList`], [`v1::PackedResults`] and the [`codec`]
//! (`docs/decisions/0011-messages-of-ours.md`).

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

/// That these bytes are the same request and the same response of `SolveBatch` to
/// the types of [`v1`] and to what is generated without a type of ours.
#[cfg(any(test, fuzzing))]
pub(crate) fn check(bytes: &[u8]) {
    check_as::<v1::SolveBatchRequest, plain::SolveBatchRequest>(bytes);
    check_as::<v1::SolveBatchResponse, plain::SolveBatchResponse>(bytes);
}

/// The same, whole, cut in two, and as a short message is read.
#[cfg(any(test, fuzzing))]
#[allow(
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what panics here is a finding"
)]
fn check_as<Ours, Generated>(bytes: &[u8])
where
    Ours: prost::Message + Default + std::fmt::Debug,
    Generated: prost::Message + Default + std::fmt::Debug,
{
    use prost::bytes::Buf;

    let generated = Generated::decode(bytes);
    let middle = bytes.len() / 2;
    let pieces = bytes[..middle].chain(&bytes[middle..]);
    for ours in [
        Ours::decode(bytes),
        Ours::decode(pieces),
        Ours::decode(codec::Short(bytes)),
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

    use super::v1::{Outcome, Varints};
    use super::{check, v1};

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
            check(&request);
        }

        /// Packed and unpacked columns, numbers of all lengths, errors and totals
        /// in pieces.
        #[test]
        fn packed_results_are_read_as_generated_code_reads_them(
            response in fields(3, fields(1, Just(vec![1, 0x80, 2, 0x7f]).boxed()))
        ) {
            check(&response);
        }

        #[test]
        fn numbers_are_what_was_put_in(numbers: Vec<u64>, small: Vec<u8>) {
            let mut varints = Varints::with_capacity(numbers.len());
            numbers.iter().for_each(|number| varints.push(*number));
            let mut others = Varints::default();
            others.extend_small(&small);
            varints.append(&others);
            let all: Vec<u64> = numbers
                .iter()
                .copied()
                .chain(small.into_iter().map(u64::from))
                .collect();
            prop_assert_eq!(varints.len(), all.len());
            prop_assert_eq!(varints.is_empty(), all.is_empty());
            prop_assert!(varints.iter().eq(all));
        }
    }

    #[test]
    fn columns_are_told_by_their_types() {
        let mut results = v1::PackedResults::default();
        for outcome in [1, 2, 77, u64::MAX] {
            results.outcomes.push(outcome);
        }
        for length in [0, 31, 181_440] {
            results.lengths.push(length);
        }
        let outcomes: Vec<Outcome> = results.outcomes().collect();
        assert_eq!(outcomes, [Outcome::Solved, Outcome::Unsolvable]);
        assert!(results.lengths().eq([0, 31, 181_440]));
    }
}
