"""What this client knows about the 3x3 puzzle, without asking the server.

A board is a tuple of nine numbers, row by row, 0 for the blank. Nothing here
looks at Loyd's own code, so the checks rest on a second, independent answer.
"""

import random

GOAL = (1, 2, 3, 4, 5, 6, 7, 8, 0)

# Where the blank goes: the change of its row and of its column.
MOVES = {"u": (-1, 0), "d": (1, 0), "l": (0, -1), "r": (0, 1)}


def _cells_reached_from(cell):
    """The cell that each move takes the blank to, for the moves there are."""
    row, column = divmod(cell, 3)
    return {
        move: (row + down) * 3 + column + right
        for move, (down, right) in MOVES.items()
        if 0 <= row + down < 3 and 0 <= column + right < 3
    }


NEIGHBOURS = [_cells_reached_from(cell) for cell in range(9)]


def replay(board, moves):
    """The board after `moves`; a move off the board is a ValueError."""
    tiles = list(board)
    blank = tiles.index(0)
    for number, move in enumerate(moves):
        if move not in NEIGHBOURS[blank]:
            raise ValueError(f"move {number} of {moves!r} leaves the board {board}")
        target = NEIGHBOURS[blank][move]
        tiles[blank], tiles[target] = tiles[target], 0
        blank = target
    return tuple(tiles)


def is_solvable(board):
    """The parity rule: on 3x3 a move never changes the parity of inversions.

    The standard goal has none, so a board is solvable if its number is even.
    """
    tiles = [tile for tile in board if tile != 0]
    inversions = sum(
        left > right
        for position, left in enumerate(tiles)
        for right in tiles[position + 1 :]
    )
    return inversions % 2 == 0


def distances_from_goal():
    """The optimal length of every solvable board: one search from the goal."""
    distances = {GOAL: 0}
    level = [GOAL]
    while level:
        next_level = []
        for board in level:
            distance = distances[board] + 1
            blank = board.index(0)
            for target in NEIGHBOURS[blank].values():
                tiles = list(board)
                tiles[blank], tiles[target] = tiles[target], 0
                neighbour = tuple(tiles)
                if neighbour not in distances:
                    distances[neighbour] = distance
                    next_level.append(neighbour)
        level = next_level
    return distances


def random_boards(count, seed):
    """Boards as they come: most solvable, some not, one in a hundred malformed.

    Returns pairs of a board and the reason to expect for it: None where the
    board is well formed, else the ErrorReason's name without its prefix.
    """
    source = random.Random(seed)
    boards = []
    for _ in range(count):
        tiles = list(range(9))
        source.shuffle(tiles)
        if not is_solvable(tiles) and source.random() < 0.8:
            _swap_two_tiles(tiles)
        reason = None
        if source.random() < 0.01:
            reason = _spoil(tiles, source)
        boards.append((tuple(tiles), reason))
    return boards


def _swap_two_tiles(tiles):
    """Swap the first two tiles that are not the blank: parity flips."""
    first, second = [cell for cell in range(3) if tiles[cell] != 0][:2]
    tiles[first], tiles[second] = tiles[second], tiles[first]


def _spoil(tiles, source):
    """Make the board malformed and return the reason that names the fault."""
    cell, other = source.sample(range(9), 2)
    if source.random() < 0.5:
        tiles[cell] = tiles[other]
        return "DUPLICATE_TILE"
    tiles[cell] = source.randint(9, 255)
    return "TILE_OUT_OF_RANGE"
