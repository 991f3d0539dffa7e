//! The boards of a message in list form.

use prost::bytes::{Buf, BufMut};
use prost::encoding::{self, DecodeContext, WireType};
use prost::{DecodeError, Message};

use super::v1::Board;

/// `loyd.v1.BoardList`, with the tiles of all boards in one vector: a vector
/// for each would cost more than the rest of reading them. On the wire it is
/// what the generated type would be, byte for byte.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoardList {
    tiles: Vec<u32>,
    boards: Vec<Entry>,
}

/// A board, but for its tiles.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Entry {
    rows: u32,
    columns: u32,
    /// Where its tiles end; those of the board before end where they begin.
    end: usize,
}

/// A board of a [`BoardList`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoardRef<'a> {
    /// In reading order, the blank as 0.
    pub tiles: &'a [u32],
    /// 0 where the board is square.
    pub rows: u32,
    /// 0 where the board is square.
    pub columns: u32,
}

impl<'a> From<&'a Board> for BoardRef<'a> {
    fn from(board: &'a Board) -> BoardRef<'a> {
        BoardRef {
            tiles: &board.tiles,
            rows: board.rows,
            columns: board.columns,
        }
    }
}

impl BoardList {
    /// The number of boards.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.boards.len()
    }

    /// Whether there is no board.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.boards.is_empty()
    }

    /// What the boards take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self.boards.as_slice()) + size_of_val(self.tiles.as_slice())
    }

    /// The boards from `first` to before `end`, as far as there are any.
    pub fn range(
        &self,
        first: usize,
        end: usize,
    ) -> impl ExactSizeIterator<Item = BoardRef<'_>> + Clone {
        let entries = self.boards.get(first..end).unwrap_or_default();
        let mut begin = match first.checked_sub(1) {
            Some(before) => self.boards.get(before).map_or(0, |entry| entry.end),
            None => 0,
        };
        entries.iter().map(move |entry| {
            let tiles = self.tiles.get(begin..entry.end).unwrap_or_default();
            begin = entry.end;
            BoardRef {
                tiles,
                rows: entry.rows,
                columns: entry.columns,
            }
        })
    }

    /// All boards.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = BoardRef<'_>> + Clone {
        self.range(0, self.boards.len())
    }

    /// Adds a board.
    pub fn push(&mut self, board: BoardRef<'_>) {
        self.tiles.extend_from_slice(board.tiles);
        self.boards.push(Entry {
            rows: board.rows,
            columns: board.columns,
            end: self.tiles.len(),
        });
    }
}

impl FromIterator<Board> for BoardList {
    fn from_iter<I: IntoIterator<Item = Board>>(boards: I) -> BoardList {
        let mut list = BoardList::default();
        for board in boards {
            list.push((&board).into());
        }
        list
    }
}

/// The field of a list, and those of a board, in the contract.
const BOARDS: u32 = 1;
const TILES: u32 = 1;
const ROWS: u32 = 2;
const COLUMNS: u32 = 3;

impl Message for BoardList {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        for board in self.iter() {
            encoding::encode_key(BOARDS, WireType::LengthDelimited, buf);
            encoding::encode_varint(board.encoded_len() as u64, buf);
            board.encode(buf);
        }
    }

    fn encoded_len(&self) -> usize {
        let of_board = |board: BoardRef<'_>| {
            let length = board.encoded_len();
            encoding::encoded_len_varint(length as u64) + length
        };
        self.len() * encoding::key_len(BOARDS) + self.iter().map(of_board).sum::<usize>()
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        if tag != BOARDS {
            return encoding::skip_field(wire_type, tag, buf, ctx);
        }
        let mut board = LastBoard {
            tiles: &mut self.tiles,
            rows: 0,
            columns: 0,
        };
        encoding::message::merge(wire_type, &mut board, buf, ctx)?;
        let LastBoard { rows, columns, .. } = board;
        self.boards.push(Entry {
            rows,
            columns,
            end: self.tiles.len(),
        });
        Ok(())
    }

    fn clear(&mut self) {
        self.tiles.clear();
        self.boards.clear();
    }
}

impl BoardRef<'_> {
    fn encoded_len(&self) -> usize {
        let tiles = encoding::uint32::encoded_len_packed(TILES, self.tiles);
        let side = |tag, value| match value {
            0 => 0,
            _ => encoding::uint32::encoded_len(tag, &value),
        };
        tiles + side(ROWS, self.rows) + side(COLUMNS, self.columns)
    }

    fn encode(&self, buf: &mut impl BufMut) {
        encoding::uint32::encode_packed(TILES, self.tiles, buf);
        for (tag, value) in [(ROWS, self.rows), (COLUMNS, self.columns)] {
            if value != 0 {
                encoding::uint32::encode(tag, &value, buf);
            }
        }
    }
}

/// A board that is being read, behind the tiles of those before it.
#[derive(Debug)]
struct LastBoard<'a> {
    tiles: &'a mut Vec<u32>,
    rows: u32,
    columns: u32,
}

impl Message for LastBoard<'_> {
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        match tag {
            TILES if wire_type == WireType::LengthDelimited && take_small(self.tiles, buf) => {
                Ok(())
            }
            TILES => encoding::uint32::merge_repeated(wire_type, self.tiles, buf, ctx),
            ROWS => encoding::uint32::merge(wire_type, &mut self.rows, buf, ctx),
            COLUMNS => encoding::uint32::merge(wire_type, &mut self.columns, buf, ctx),
            _ => encoding::skip_field(wire_type, tag, buf, ctx),
        }
    }

    // It is read alone: what is written is a `BoardList`.
    fn encode_raw(&self, _: &mut impl BufMut) {}

    fn encoded_len(&self) -> usize {
        0
    }

    fn clear(&mut self) {}
}

/// A varint below this is a byte.
pub(super) const ONE_BYTE: u8 = 0x80;

/// Takes packed tiles that are a byte each, as those of any board are, and
/// nothing where anything else is next.
#[inline]
fn take_small(tiles: &mut Vec<u32>, buf: &mut impl Buf) -> bool {
    let Some((&length, rest)) = buf.chunk().split_first() else {
        return false;
    };
    let Some(packed) = rest.get(..length.into()) else {
        return false;
    };
    if length >= ONE_BYTE || packed.iter().any(|&byte| byte >= ONE_BYTE) {
        return false;
    }
    tiles.extend(packed.iter().map(|&byte| u32::from(byte)));
    buf.advance(1 + usize::from(length));
    true
}
