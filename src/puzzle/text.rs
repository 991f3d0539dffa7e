//! Boards as text.
//!
//! Cells are numbers apart from each other by white space or commas, or single
//! characters without anything between them; `/` ends a row; the blank is one
//! of `0 x X _ .`: `2 3 4 1 5 x 7 6 8`, `2,3,4/1,5,0/7,6,8`, `23415x768`.

use std::fmt;

use super::{Board, BoardError, MAX_CELLS, Shape};

/// The most cells that are read from a text: enough to name the size of any
/// common board, and a bound on what a line can make us keep.
const MAX_TEXT_CELLS: usize = 36;

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
        "not a whole board (cells found: {found}): write all rows on one line, \
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
         separate rows by `/` or give the number of columns (--columns)"
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
    fn push_token(&mut self, token: &[u8]) -> Result<(), TextError> {
        match token {
            [byte] => match single(*byte) {
                Some(tile) => self.push(tile),
                None => Err(self.bad(token)),
            },
            digits if digits.iter().all(u8::is_ascii_digit) => {
                // What does not fit in 32 bits is out of range all the more.
                self.push(digits.iter().fold(0_u32, |number, digit| {
                    number
                        .saturating_mul(10)
                        .saturating_add(u32::from(digit - b'0'))
                }))
            }
            _ => Err(self.bad(token)),
        }
    }

    /// Reads cells that are single characters.
    fn push_compact(&mut self, token: &[u8]) -> Result<(), TextError> {
        for (at, byte) in token.iter().enumerate() {
            match single(*byte) {
                Some(tile) => self.push(tile)?,
                None => {
                    // What is no cell may be a character of several bytes.
                    let rest = String::from_utf8_lossy(token.get(at..).unwrap_or_default());
                    let letter: String = rest.chars().take(1).collect();
                    return Err(self.bad(letter.as_bytes()));
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn bad(&self, cell: &[u8]) -> TextError {
        let cell = String::from_utf8_lossy(cell);
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
    let class = class(byte);
    (class < SEPARATOR).then_some(u32::from(class))
}

/// White space beyond ASCII, which [`parse`] takes for a plain space.
fn is_wide_space(letter: char) -> bool {
    !letter.is_ascii() && letter.is_whitespace()
}

/// What stands between cells, where all white space is ASCII.
#[inline]
fn is_separator(byte: u8) -> bool {
    class(byte) == SEPARATOR
}

fn tokens(row: &[u8]) -> impl Iterator<Item = &[u8]> {
    row.split(|byte| is_separator(*byte))
        .filter(|token| !token.is_empty())
}

/// Whether the cells are single characters without anything between them: no
/// row has two tokens, and one token has more than one character.
fn is_compact(text: &[u8]) -> bool {
    let (mut tokens, mut in_token, mut any_long) = (0, false, false);
    for &byte in text {
        if byte == b'/' {
            (tokens, in_token) = (0, false);
        } else if is_separator(byte) {
            in_token = false;
        } else if in_token {
            any_long = true;
        } else {
            tokens += 1;
            in_token = true;
            if tokens > 1 {
                return false;
            }
        }
    }
    any_long
}

/// What a byte of a text can be: a tile's number, or one of these.
const SEPARATOR: u8 = 10;
const OTHER: u8 = 11;
#[expect(
    clippy::indexing_slicing,
    reason = "evaluated by the compiler, which checks it"
)]
const CLASSES: [u8; 256] = {
    let mut classes = [OTHER; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'0'..=b'9' => byte - b'0',
            b'x' | b'X' | b'_' | b'.' => 0,
            b' ' | b',' | b'\t'..=b'\r' => SEPARATOR,
            _ => OTHER,
        };
        byte += 1;
    }
    classes
};

#[inline]
fn class(byte: u8) -> u8 {
    CLASSES.get(usize::from(byte)).copied().unwrap_or(OTHER)
}

/// Reads a square board without `/` whose cells are single characters, in one
/// pass: what most lines of most inputs are. `None` where the text is anything
/// else, be it a board or not.
fn parse_plain(text: &[u8]) -> Option<Board> {
    let mut tiles = [0; MAX_CELLS];
    let mut count = 0;
    let (mut after_cell, mut any_adjacent, mut any_apart) = (false, false, false);
    for &byte in text {
        let class = class(byte);
        if class < SEPARATOR {
            *tiles.get_mut(count)? = class;
            any_adjacent |= after_cell;
            any_apart |= !after_cell && count > 0;
            count += 1;
        } else if class == OTHER {
            return None;
        }
        after_cell = class < SEPARATOR;
    }
    let shape = match count {
        4 => Shape::new(2, 2).ok()?,
        9 => Shape::EIGHT,
        _ => return None,
    };
    if any_adjacent && any_apart {
        return None;
    }
    Board::from_bytes(shape, tiles.get(..count)?).ok()
}

/// Reads a board. Its shape comes from `/`, else from `columns`, else it is a
/// square.
///
/// # Errors
/// The first thing that keeps the text from being a board.
pub fn parse(text: &str, columns: Option<usize>) -> Result<Board, TextError> {
    if columns.is_none()
        && let Some(board) = parse_plain(text.as_bytes())
    {
        return Ok(board);
    }
    if !text.is_ascii() && text.contains(is_wide_space) {
        return parse(&text.replace(is_wide_space, " "), columns);
    }
    let text = text.as_bytes();
    let compact = is_compact(text);
    let mut cells = Cells {
        tiles: [0; MAX_TEXT_CELLS],
        count: 0,
    };
    let mut row_length = None;
    let mut rows = text.split(|byte| *byte == b'/').enumerate().peekable();
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
