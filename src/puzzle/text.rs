//! Boards as text.
//!
//! Cells are numbers apart from each other by white space or commas, or single
//! characters without anything between them; `/` ends a row; the blank is one
//! of `0 x X _ .`: `2 3 4 1 5 x 7 6 8`, `2,3,4/1,5,0/7,6,8`, `23415x768`.

use std::fmt;

use super::{Board, BoardError};

/// The most cells that are read from a text: enough to name the size of any
/// common board, and a bound on what a line can make us keep.
const MAX_TEXT_CELLS: usize = 64;

/// The most characters of a bad cell that an error repeats.
const MAX_SHOWN: usize = 16;

/// Why a text is not a board.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Something that is neither a tile nor a blank.
    #[error(
        "`{cell}` (cell {position}) is neither a tile (a number) nor a blank (one of 0 x X _ .)"
    )]
    BadCell {
        /// What stands there, shortened.
        cell: String,
        /// The cell, counted from 0.
        position: usize,
    },
    /// The rows that `/` separates differ in length.
    #[error("row {row} has {found} cells and row 0 has {expected}: all rows must be equally long")]
    RaggedRows {
        /// The row, counted from 0.
        row: usize,
        /// Its cells.
        found: usize,
        /// The cells of the first row.
        expected: usize,
    },
    /// The columns asked for do not divide the cells.
    #[error("{found} cells do not make rows of {columns}")]
    ColumnsDoNotFit {
        /// The number of cells.
        found: usize,
        /// The columns asked for.
        columns: usize,
    },
    /// The columns asked for and the rows written down disagree.
    #[error("the rows have {found} cells, and {columns} columns were asked for")]
    ColumnsDisagree {
        /// The cells of the first row.
        found: usize,
        /// The columns asked for.
        columns: usize,
    },
    /// Too few cells for any board: most often one row of several lines.
    #[error(
        "{found} cells are not a whole board: write all rows on one line, \
         as in `2 3 4 1 5 x 7 6 8` or `2 3 4 / 1 5 x / 7 6 8`"
    )]
    NotWhole {
        /// The number of cells.
        found: usize,
    },
    /// More cells than any board has.
    #[error(
        "more than {MAX_TEXT_CELLS} cells: the sizes are {}",
        super::shape::SUPPORTED_SIZES
    )]
    TooManyCells,
    /// No shape is given and the number of cells is no square.
    #[error(
        "{found} cells do not make a square board (4 or 9 would): \
         separate rows by `/` or give the number of columns"
    )]
    NotSquare {
        /// The number of cells.
        found: usize,
    },
    /// The cells are numbers, and those are not a board.
    #[error(transparent)]
    Board(#[from] BoardError),
}

/// The cells read so far.
struct Cells {
    tiles: [u32; MAX_TEXT_CELLS],
    count: usize,
}

impl Cells {
    fn push(&mut self, tile: u32) -> Result<(), TextError> {
        let place = self
            .tiles
            .get_mut(self.count)
            .ok_or(TextError::TooManyCells)?;
        *place = tile;
        self.count += 1;
        Ok(())
    }

    /// Reads a cell that stands by itself: a number or a blank.
    fn push_token(&mut self, token: &str) -> Result<(), TextError> {
        match token.as_bytes() {
            [byte] => match single(*byte) {
                Some(tile) => self.push(tile),
                None => Err(self.bad(token)),
            },
            bytes if bytes.iter().all(u8::is_ascii_digit) => {
                // What does not fit in 32 bits is out of range all the more.
                self.push(token.parse().unwrap_or(u32::MAX))
            }
            _ => Err(self.bad(token)),
        }
    }

    /// Reads a row whose cells are single characters.
    fn push_compact(&mut self, row: &str) -> Result<(), TextError> {
        for letter in row.chars() {
            match u8::try_from(letter).ok().and_then(single) {
                Some(tile) => self.push(tile)?,
                None => return Err(self.bad(letter.encode_utf8(&mut [0; 4]))),
            }
        }
        Ok(())
    }

    fn bad(&self, cell: &str) -> TextError {
        let mut shown: String = cell
            .chars()
            .take(MAX_SHOWN)
            .flat_map(char::escape_debug)
            .collect();
        if cell.chars().nth(MAX_SHOWN).is_some() {
            shown.push('…');
        }
        TextError::BadCell {
            cell: shown,
            position: self.count,
        }
    }
}

/// The tile of a one-character cell.
#[inline]
fn single(byte: u8) -> Option<u32> {
    match byte {
        b'0'..=b'9' => Some(u32::from(byte - b'0')),
        b'x' | b'X' | b'_' | b'.' => Some(0),
        _ => None,
    }
}

fn tokens(row: &str) -> impl Iterator<Item = &str> {
    row.split(|letter: char| letter == ',' || letter.is_whitespace())
        .filter(|token| !token.is_empty())
}

/// Reads a board. Its shape comes from `/`, else from `columns`, else it is a
/// square.
///
/// # Errors
/// The first thing that keeps the text from being a board.
pub fn parse(text: &str, columns: Option<usize>) -> Result<Board, TextError> {
    // Single characters without anything between them: no row has two tokens,
    // and one has more than one character.
    let compact = text.split('/').all(|row| tokens(row).nth(1).is_none())
        && text
            .split('/')
            .flat_map(tokens)
            .any(|token| token.len() > 1);
    let mut cells = Cells {
        tiles: [0; MAX_TEXT_CELLS],
        count: 0,
    };
    let mut row_length = None;
    let mut rows = text.split('/').enumerate().peekable();
    while let Some((row, row_text)) = rows.next() {
        let before = cells.count;
        for token in tokens(row_text) {
            if compact {
                cells.push_compact(token)?
            } else {
                cells.push_token(token)?
            }
        }
        let found = cells.count - before;
        // A `/` may also end the last row.
        if found == 0 && row > 0 && rows.peek().is_none() {
            break;
        }
        match row_length {
            None if rows.peek().is_some() => row_length = Some(found),
            Some(expected) if expected != found => {
                return Err(TextError::RaggedRows {
                    row,
                    found,
                    expected,
                });
            }
            _ => {}
        }
    }
    board_of(&cells, row_length, columns)
}

fn board_of(
    cells: &Cells,
    row_length: Option<usize>,
    columns: Option<usize>,
) -> Result<Board, TextError> {
    let found = cells.count;
    let columns = match (row_length, columns) {
        (Some(length), Some(columns)) if length != columns => {
            return Err(TextError::ColumnsDisagree {
                found: length,
                columns,
            });
        }
        (Some(columns), _) | (None, Some(columns)) => Some(columns),
        (None, None) => None,
    };
    let tiles = cells.tiles.get(..found).unwrap_or_default();
    match columns {
        _ if found < 4 => Err(TextError::NotWhole { found }),
        Some(columns) if columns == found => Err(TextError::NotWhole { found }),
        Some(columns) if columns == 0 || !found.is_multiple_of(columns) => {
            Err(TextError::ColumnsDoNotFit { found, columns })
        }
        Some(columns) => {
            let rows = u32::try_from(found / columns).unwrap_or(u32::MAX);
            let columns = u32::try_from(columns).unwrap_or(u32::MAX);
            Ok(Board::new(tiles, rows, columns)?)
        }
        None if found.isqrt().pow(2) != found => Err(TextError::NotSquare { found }),
        None => Ok(Board::new(tiles, 0, 0)?),
    }
}

/// Writes `2 3 4 / 1 5 x / 7 6 8`, which [`parse`] reads back as the same board.
pub(super) fn write(board: &Board, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (row, tiles) in board.tiles().chunks(board.shape().columns()).enumerate() {
        if row > 0 {
            f.write_str(" / ")?;
        }
        for (column, tile) in tiles.iter().enumerate() {
            if column > 0 {
                f.write_str(" ")?;
            }
            if *tile == 0 {
                f.write_str("x")?
            } else {
                write!(f, "{tile}")?
            }
        }
    }
    Ok(())
}
