//! The four moves.

/// Where the blank goes in a move. The tile it changes places with goes the
/// other way: `r` swaps the blank with the tile on its right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// `u`
    Up,
    /// `l`
    Left,
    /// `r`
    Right,
    /// `d`
    Down,
}

impl Direction {
    /// All four, in the order in which searches try them.
    pub const ALL: [Direction; 4] = [
        Direction::Up,
        Direction::Left,
        Direction::Right,
        Direction::Down,
    ];

    /// The letter that stands for the move in an answer.
    pub const fn letter(self) -> char {
        match self {
            Direction::Up => 'u',
            Direction::Left => 'l',
            Direction::Right => 'r',
            Direction::Down => 'd',
        }
    }

    /// The move that a letter stands for.
    pub const fn from_letter(letter: char) -> Option<Direction> {
        match letter {
            'u' => Some(Direction::Up),
            'l' => Some(Direction::Left),
            'r' => Some(Direction::Right),
            'd' => Some(Direction::Down),
            _ => None,
        }
    }

    /// The move that takes this one back.
    pub const fn opposite(self) -> Direction {
        match self {
            Direction::Up => Direction::Down,
            Direction::Left => Direction::Right,
            Direction::Right => Direction::Left,
            Direction::Down => Direction::Up,
        }
    }
}
