//! A board: tiles and one blank on the cells of a shape.

use std::fmt;

use super::shape::{MAX_CELLS, Shape, ShapeError};
use super::{Direction, text};

/// An arrangement of the tiles `1..cells` and one blank (0) on a supported
/// shape. A `Board` in hand is always well formed.
///
/// How the tiles are kept is private, so that larger boards need no change
/// elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Board {
    shape: Shape,
    blank: u8,
    /// Row by row; the places beyond the shape's cells are always 0.
    tiles: [u8; MAX_CELLS],
}

/// Why numbers are not a board. Positions count from 0, row by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BoardError {
    /// No shape is given and the number of tiles is no square.
    #[error(
        "{} square board: \
         4 or 9 would, the blank included; other sizes need rows and columns",
        make_no(*found)
    )]
    NotSquare {
        /// The number of tiles.
        found: usize,
    },
    /// The shape has another number of cells.
    #[error(
        "{found} tiles do not fill a {rows}x{columns} board: \
         it takes {expected}, the blank included"
    )]
    WrongTileCount {
        /// The number of tiles.
        found: usize,
        /// The rows of the shape.
        rows: u32,
        /// The columns of the shape.
        columns: u32,
        /// The number of cells of the shape.
        expected: u64,
    },
    /// A tile is too large.
    #[error(
        "tile {tile} at position {position} is out of range: {}",
        in_range(*cells)
    )]
    TileOutOfRange {
        /// The tile.
        tile: u32,
        /// Where it stands.
        position: usize,
        /// The number of cells of the board.
        cells: usize,
    },
    /// A tile, or the blank (0), appears twice.
    #[error("{} appears twice (positions {first} and {second})", name(*tile))]
    DuplicateTile {
        /// The tile.
        tile: u32,
        /// Where it stands first.
        first: usize,
        /// Where it stands again.
        second: usize,
    },
    /// The tiles are right for a shape that is not.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

fn make_no(tiles: usize) -> String {
    match tiles {
        0 => "no tiles make no".to_owned(),
        _ => format!("{tiles} tiles do not make a"),
    }
}

fn in_range(cells: usize) -> String {
    match cells {
        0 | 1 => "one cell has room for the blank (0) alone".to_owned(),
        2 => "a board of 2 cells has the tile 1 and one blank (0)".to_owned(),
        _ => format!(
            "a board of {cells} cells has the tiles 1 to {} and one blank (0)",
            cells - 1
        ),
    }
}

fn name(tile: u32) -> String {
    if tile == 0 {
        "the blank (0)".to_owned()
    } else {
        format!("tile {tile}")
    }
}

impl Board {
    /// The board with these tiles, row by row, 0 for the blank. `rows` and
    /// `columns` both 0 mean a square board.
    ///
    /// # Errors
    /// The first fault in the order of [`BoardError`]'s variants. That a blank
    /// is missing never has to be said: as many different tiles in range as
    /// there are cells include the 0.
    pub fn new(tiles: &[u32], rows: u32, columns: u32) -> Result<Board, BoardError> {
        let found = tiles.len();
        let (rows, columns) = match (rows, columns) {
            (0, 0) => {
                let side = u32::try_from(found.isqrt()).unwrap_or(u32::MAX);
                if side == 0 || found.isqrt().pow(2) != found {
                    return Err(BoardError::NotSquare { found });
                }
                (side, side)
            }
            shape => shape,
        };
        let expected = u64::from(rows) * u64::from(columns);
        // A shape with a zero in it has no number of cells that could be
        // wrong: it is told as a bad shape, after the tiles.
        if expected != 0 && expected != found as u64 {
            return Err(BoardError::WrongTileCount {
                found,
                rows,
                columns,
                expected,
            });
        }
        check_tiles(tiles)?;
        let shape = Shape::new(rows, columns)?;
        let mut kept = [0; MAX_CELLS];
        for (place, tile) in kept.iter_mut().zip(tiles) {
            *place = u8::try_from(*tile).unwrap_or(0);
        }
        Ok(Board::from_checked(shape, kept))
    }

    /// The board with these tiles, one byte each: [`Board::new`] for a known
    /// shape, for the packed form.
    ///
    /// # Errors
    /// As [`Board::new`].
    #[inline]
    pub fn from_bytes(shape: Shape, tiles: &[u8]) -> Result<Board, BoardError> {
        let board = match <&[u8; MAX_CELLS]>::try_from(tiles) {
            Ok(nine) if shape == Shape::EIGHT => Board::of_nine(nine),
            _ if tiles.len() == shape.cells() => Board::from_fitting(shape, tiles),
            _ => None,
        };
        board.ok_or_else(|| Board::why_not(shape, tiles))
    }

    /// The 3x3 board with these tiles, if none is missing: most of all boards,
    /// so eight tiles are looked at at a time.
    #[inline(always)]
    fn of_nine(tiles: &[u8; MAX_CELLS]) -> Option<Board> {
        /// A byte's bits that no tile below 32 has.
        const TOO_HIGH: u64 = u64::from_le_bytes([0xe0; 8]);
        const ONES: u64 = u64::from_le_bytes([1; 8]);
        const SIGNS: u64 = u64::from_le_bytes([0x80; 8]);

        let [eight @ .., last] = *tiles;
        let eight = u64::from_le_bytes(eight);
        let seen = tiles
            .iter()
            .fold(0_u32, |seen, tile| seen | 1 << (tile & 31));
        if (eight | u64::from(last)) & TOO_HIGH != 0 || seen != (1 << MAX_CELLS) - 1 {
            return None;
        }
        // The first byte that borrows is the blank; where none does, all 64
        // bits are zeros before the first one, and the blank is the ninth.
        let borrows = eight.wrapping_sub(ONES) & !eight & SIGNS;
        Some(Board {
            shape: Shape::EIGHT,
            blank: cell((borrows.trailing_zeros() / u8::BITS) as usize),
            tiles: *tiles,
        })
    }

    /// The board with these tiles, as many as the shape has cells, if none is
    /// missing.
    fn from_fitting(shape: Shape, tiles: &[u8]) -> Option<Board> {
        let mut kept = [0; MAX_CELLS];
        let mut seen = 0_u32;
        let mut blank = 0;
        for (cell, (place, &tile)) in (0..).zip(kept.iter_mut().zip(tiles)) {
            *place = tile;
            seen |= 1_u32.checked_shl(u32::from(tile)).unwrap_or(1 << 31);
            if tile == 0 {
                blank = cell;
            }
        }
        (seen == (1 << tiles.len()) - 1).then_some(Board {
            shape,
            blank,
            tiles: kept,
        })
    }

    #[cold]
    fn why_not(shape: Shape, tiles: &[u8]) -> BoardError {
        let wide: Vec<u32> = tiles.iter().map(|&tile| u32::from(tile)).collect();
        let (rows, columns) = shape.sides();
        match Board::new(&wide, rows, columns) {
            Err(error) => error,
            // Both constructors accept the same tiles, so this is not reached.
            Ok(_) => BoardError::WrongTileCount {
                found: tiles.len(),
                rows,
                columns,
                expected: shape.cells() as u64,
            },
        }
    }

    #[inline]
    fn from_checked(shape: Shape, tiles: [u8; MAX_CELLS]) -> Board {
        let blank = tiles.iter().position(|&tile| tile == 0).unwrap_or(0);
        Board {
            shape,
            blank: cell(blank),
            tiles,
        }
    }

    /// The standard goal of a shape: `1 2 3 / 4 5 6 / 7 8 0` and its like.
    pub fn standard_goal(shape: Shape) -> Board {
        let last = shape.cells() - 1;
        let mut tiles = [0; MAX_CELLS];
        for (tile, place) in (1..).zip(tiles.iter_mut().take(last)) {
            *place = tile;
        }
        Board {
            shape,
            blank: cell(last),
            tiles,
        }
    }

    /// The size of the board.
    #[inline]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The tiles, row by row, 0 for the blank: as many as the shape has cells.
    #[inline]
    pub fn tiles(&self) -> &[u8] {
        self.tiles.get(..self.shape.cells()).unwrap_or(&self.tiles)
    }

    /// The tiles with a 0 in each place beyond the shape's cells: of one length
    /// for every shape, so that loops over it have a fixed number of rounds.
    #[inline]
    pub(crate) fn padded(&self) -> &[u8; MAX_CELLS] {
        &self.tiles
    }

    /// The cell of the blank, counted from 0, row by row.
    #[inline]
    pub fn blank(&self) -> usize {
        usize::from(self.blank)
    }

    /// The board after the blank went that way, or `None` at the edge.
    pub fn slide(&self, direction: Direction) -> Option<Board> {
        let target = self.shape.neighbour(self.blank(), direction)?;
        let mut next = *self;
        next.tiles.swap(self.blank(), target);
        next.blank = cell(target);
        Some(next)
    }
}

/// A cell's number as it is kept.
#[inline]
fn cell(number: usize) -> u8 {
    #[expect(clippy::cast_possible_truncation, reason = "cells are below MAX_CELLS")]
    let number = number as u8;
    number
}

/// The first tile out of range, else the first that appears twice.
fn check_tiles(tiles: &[u32]) -> Result<(), BoardError> {
    let cells = tiles.len();
    // All bits of 0..cells, once each: nothing is wrong and nothing to find.
    let seen = tiles.iter().fold(0_u32, |seen, &tile| {
        seen | 1_u32.checked_shl(tile).unwrap_or(0)
    });
    if cells < 32 && seen == (1 << cells) - 1 {
        return Ok(());
    }
    if let Some((position, &tile)) = tiles
        .iter()
        .enumerate()
        .find(|&(_, &tile)| tile as usize >= cells)
    {
        return Err(BoardError::TileOutOfRange {
            tile,
            position,
            cells,
        });
    }
    let mut seen_at = vec![None; cells];
    for (position, &tile) in tiles.iter().enumerate() {
        match seen_at.get_mut(tile as usize) {
            Some(seen @ None) => *seen = Some(position),
            Some(Some(first)) => {
                return Err(BoardError::DuplicateTile {
                    tile,
                    first: *first,
                    second: position,
                });
            }
            None => {
                return Err(BoardError::TileOutOfRange {
                    tile,
                    position,
                    cells,
                });
            }
        }
    }
    Ok(())
}

/// The text form with rows: `2 3 4 / 1 5 x / 7 6 8`.
impl fmt::Display for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write(self, f)
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
