//! The answers of a response in packed form.

use prost::bytes::{Buf, BufMut};
use prost::encoding::{self, DecodeContext, WireType};
use prost::{DecodeError, Message};

use super::board_list::ONE_BYTE;
use super::v1::{Outcome, PackedError, SearchStats};

/// `loyd.v1.PackedResults`, with its columns of numbers as they are on the wire:
/// to measure and write them number by number would cost a tenth of answering
/// from a table. On the wire it is what the generated type would be, byte for
/// byte.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PackedResults {
    /// What came of each board, as [`Outcome`].
    pub outcomes: Varints,
    /// The number of moves of each board; 0 where it was not solved.
    pub lengths: Varints,
    /// The moves of all boards back to back, in order.
    pub moves: String,
    /// The malformed boards.
    pub errors: Vec<PackedError>,
    /// Every solved board's solution here is proved optimal.
    pub all_optimal: bool,
    /// Sums over the boards of this response.
    pub totals: Option<SearchStats>,
}

/// Numbers, each as the shortest varint there is for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Varints {
    bytes: Vec<u8>,
    len: usize,
}

/// The bits of a number that a byte of its varint has.
const BITS: u32 = 7;

impl Varints {
    /// None, with room for so many below 128.
    #[must_use]
    pub fn with_capacity(numbers: usize) -> Varints {
        Varints {
            bytes: Vec::with_capacity(numbers),
            len: 0,
        }
    }

    /// How many there are.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What they take.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds a number.
    #[inline]
    pub fn push(&mut self, number: u64) {
        match u8::try_from(number) {
            Ok(byte) if byte < ONE_BYTE => self.bytes.push(byte),
            _ => encoding::encode_varint(number, &mut self.bytes),
        }
        self.len += 1;
    }

    /// Adds numbers, which are mostly below 128.
    #[inline]
    pub fn extend_small(&mut self, numbers: &[u8]) {
        if numbers.iter().all(|number| *number < ONE_BYTE) {
            self.bytes.extend_from_slice(numbers);
            self.len += numbers.len();
        } else {
            numbers
                .iter()
                .for_each(|number| self.push((*number).into()));
        }
    }

    /// Adds all of those.
    pub fn append(&mut self, others: &Varints) {
        self.bytes.extend_from_slice(&others.bytes);
        self.len += others.len;
    }

    /// The numbers.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        let ends_number = |byte: &u8| *byte < ONE_BYTE;
        self.bytes.split_inclusive(ends_number).map(|varint| {
            varint.iter().rev().fold(0, |number, byte| {
                number << BITS | u64::from(byte & (ONE_BYTE - 1))
            })
        })
    }

    fn encoded_len(&self, tag: u32) -> usize {
        if self.bytes.is_empty() {
            return 0;
        }
        let length = self.bytes.len();
        encoding::key_len(tag) + encoding::encoded_len_varint(length as u64) + length
    }

    fn encode(&self, tag: u32, buf: &mut impl BufMut) {
        if self.bytes.is_empty() {
            return;
        }
        encoding::encode_key(tag, WireType::LengthDelimited, buf);
        encoding::encode_varint(self.bytes.len() as u64, buf);
        buf.put_slice(&self.bytes);
    }

    /// Reads a field, packed or not. `narrow` makes what was read a number of the
    /// field's type again.
    fn merge(
        &mut self,
        narrow: fn(u64) -> u64,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        if wire_type == WireType::LengthDelimited {
            return encoding::merge_loop(self, buf, ctx, |numbers, buf, _| {
                numbers.push(narrow(encoding::decode_varint(buf)?));
                Ok(())
            });
        }
        let mut number = 0;
        encoding::uint64::merge(wire_type, &mut number, buf, ctx)?;
        self.push(narrow(number));
        Ok(())
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.len = 0;
    }
}

/// As an `enum`, whose numbers below zero are written in 64 bits.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "protobuf drops the upper half"
)]
fn narrow_enum(number: u64) -> u64 {
    number as i32 as u64
}

/// As a `uint32`.
#[allow(
    clippy::cast_possible_truncation,
    reason = "protobuf drops the upper half"
)]
fn narrow_u32(number: u64) -> u64 {
    u64::from(number as u32)
}

impl PackedResults {
    /// What came of each board. A number that is no outcome is left out.
    pub fn outcomes(&self) -> impl Iterator<Item = Outcome> {
        let numbers = self.outcomes.iter();
        numbers.filter_map(|number| {
            let number = i32::try_from(number).ok()?;
            Outcome::try_from(number).ok()
        })
    }

    /// The number of moves of each board.
    pub fn lengths(&self) -> impl Iterator<Item = u32> {
        let numbers = self.lengths.iter();
        numbers.map(|number| u32::try_from(number).unwrap_or(u32::MAX))
    }
}

/// The fields in the contract.
const OUTCOMES: u32 = 1;
const LENGTHS: u32 = 2;
const MOVES: u32 = 3;
const ERRORS: u32 = 4;
const ALL_OPTIMAL: u32 = 5;
const TOTALS: u32 = 6;

impl Message for PackedResults {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        self.outcomes.encode(OUTCOMES, buf);
        self.lengths.encode(LENGTHS, buf);
        if !self.moves.is_empty() {
            encoding::string::encode(MOVES, &self.moves, buf);
        }
        encoding::message::encode_repeated(ERRORS, &self.errors, buf);
        if self.all_optimal {
            encoding::bool::encode(ALL_OPTIMAL, &self.all_optimal, buf);
        }
        if let Some(totals) = &self.totals {
            encoding::message::encode(TOTALS, totals, buf);
        }
    }

    fn encoded_len(&self) -> usize {
        let moves = match self.moves.len() {
            0 => 0,
            _ => encoding::string::encoded_len(MOVES, &self.moves),
        };
        let all_optimal = match self.all_optimal {
            false => 0,
            true => encoding::bool::encoded_len(ALL_OPTIMAL, &true),
        };
        let totals = self.totals.as_ref();
        self.outcomes.encoded_len(OUTCOMES)
            + self.lengths.encoded_len(LENGTHS)
            + moves
            + encoding::message::encoded_len_repeated(ERRORS, &self.errors)
            + all_optimal
            + totals.map_or(0, |totals| encoding::message::encoded_len(TOTALS, totals))
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        match tag {
            OUTCOMES => self.outcomes.merge(narrow_enum, wire_type, buf, ctx),
            LENGTHS => self.lengths.merge(narrow_u32, wire_type, buf, ctx),
            MOVES => encoding::string::merge(wire_type, &mut self.moves, buf, ctx),
            ERRORS => encoding::message::merge_repeated(wire_type, &mut self.errors, buf, ctx),
            ALL_OPTIMAL => encoding::bool::merge(wire_type, &mut self.all_optimal, buf, ctx),
            TOTALS => {
                let totals = self.totals.get_or_insert_default();
                encoding::message::merge(wire_type, totals, buf, ctx)
            }
            _ => encoding::skip_field(wire_type, tag, buf, ctx),
        }
    }

    fn clear(&mut self) {
        self.outcomes.clear();
        self.lengths.clear();
        self.moves.clear();
        self.errors.clear();
        self.all_optimal = false;
        self.totals = None;
    }
}
