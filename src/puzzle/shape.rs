//! The size of a board.

use std::fmt;

use super::Direction;

/// The most cells a supported board has.
pub const MAX_CELLS: usize = 9;

/// The sizes that are solved, as people read them in error messages.
pub(crate) const SUPPORTED_SIZES: &str = "2x2, 2x3, 3x2, 2x4, 4x2 and 3x3";

/// Rows and columns of a supported board: at least two of each, at most
/// [`MAX_CELLS`] cells. A `Shape` in hand is always a supported one.
///
/// One-row and one-column boards are left out because their tiles can never
/// pass each other: the parity rule of [`Problem`](super::Problem) does not
/// hold for them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    rows: u8,
    columns: u8,
}

/// Why rows and columns are not the shape of a supported board.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// One of the two is zero and the other is not.
    #[error(
        "a board of {rows} rows and {columns} columns has no cells: \
         give both, or neither for a square board"
    )]
    Bad {
        /// The rows asked for.
        rows: u32,
        /// The columns asked for.
        columns: u32,
    },
    /// A board of this size is not solved here.
    #[error("a {rows}x{columns} board is not supported: the sizes are {SUPPORTED_SIZES}")]
    Unsupported {
        /// The rows asked for.
        rows: u32,
        /// The columns asked for.
        columns: u32,
    },
}

impl Shape {
    /// The classic 8-puzzle.
    pub const EIGHT: Shape = Shape {
        rows: 3,
        columns: 3,
    };

    /// Every supported shape, the smallest first.
    pub const ALL: [Shape; 6] = [
        Shape {
            rows: 2,
            columns: 2,
        },
        Shape {
            rows: 2,
            columns: 3,
        },
        Shape {
            rows: 3,
            columns: 2,
        },
        Shape {
            rows: 2,
            columns: 4,
        },
        Shape {
            rows: 4,
            columns: 2,
        },
        Shape::EIGHT,
    ];

    /// The shape of `rows` by `columns` cells.
    ///
    /// # Errors
    /// [`ShapeError::Bad`] where exactly one of them is zero, else
    /// [`ShapeError::Unsupported`] where it is none of [`Shape::ALL`].
    pub fn new(rows: u32, columns: u32) -> Result<Shape, ShapeError> {
        if (rows == 0) != (columns == 0) {
            return Err(ShapeError::Bad { rows, columns });
        }
        Shape::ALL
            .into_iter()
            .find(|shape| u32::from(shape.rows) == rows && u32::from(shape.columns) == columns)
            .ok_or(ShapeError::Unsupported { rows, columns })
    }

    /// Where the blank of a cell gets to that way, or `None` at the edge.
    pub const fn neighbour(self, cell: usize, direction: Direction) -> Option<usize> {
        let columns = self.columns();
        let (row, column) = (cell / columns, cell % columns);
        match direction {
            Direction::Up if row > 0 => Some(cell - columns),
            Direction::Left if column > 0 => Some(cell - 1),
            Direction::Right if column + 1 < columns => Some(cell + 1),
            Direction::Down if row + 1 < self.rows() => Some(cell + columns),
            _ => None,
        }
    }

    /// A number of its own for each of [`Shape::ALL`], below
    /// [`Shape::SLOTS`]: for arrays that keep something a shape.
    #[inline]
    pub(crate) fn slot(self) -> usize {
        // 10, 11, 14, 12, 18 and 15 in the order of `ALL`.
        usize::from(self.rows) * 4 + usize::from(self.columns) - 10
    }

    /// One more than the largest [`Shape::slot`].
    pub(crate) const SLOTS: usize = 9;

    /// The number of rows.
    #[inline]
    pub const fn rows(self) -> usize {
        self.rows as usize
    }

    /// The number of columns.
    #[inline]
    pub const fn columns(self) -> usize {
        self.columns as usize
    }

    /// Rows and columns, as messages have them.
    pub fn sides(self) -> (u32, u32) {
        (self.rows.into(), self.columns.into())
    }

    /// The number of cells, the blank's included: at most [`MAX_CELLS`].
    #[inline]
    pub const fn cells(self) -> usize {
        self.rows() * self.columns()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.columns)
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
