// What this client knows about the 3x3 puzzle, without asking the server.
//
// A board is an array of nine numbers, row by row, 0 for the blank. Nothing
// here looks at Loyd's own code, so the checks rest on a second, independent
// answer.

export const GOAL = [1, 2, 3, 4, 5, 6, 7, 8, 0];

// Where the blank goes: the change of its row and of its column.
const MOVES = { u: [-1, 0], d: [1, 0], l: [0, -1], r: [0, 1] };

// For each cell, where each move takes a blank that is there.
const NEIGHBOURS = GOAL.map((_, cell) => {
  const reached = new Map();
  for (const [move, [down, right]] of Object.entries(MOVES)) {
    const row = Math.floor(cell / 3) + down;
    const column = (cell % 3) + right;
    if (row >= 0 && row < 3 && column >= 0 && column < 3) {
      reached.set(move, row * 3 + column);
    }
  }
  return reached;
});

function slide(board, blank, target) {
  const next = [...board];
  next[blank] = board[target];
  next[target] = 0;
  return next;
}

/** The board after `moves`; throws where a move leaves the board. */
export function replay(board, moves) {
  const tiles = [...board];
  let blank = tiles.indexOf(0);
  for (const move of moves) {
    const target = NEIGHBOURS[blank].get(move);
    if (target === undefined) {
      throw new Error(`${moves} leaves the board ${board}`);
    }
    tiles[blank] = tiles[target];
    tiles[target] = 0;
    blank = target;
  }
  return tiles;
}

/**
 * The parity rule: on 3x3 a move never changes the parity of inversions. The
 * standard goal has none, so a board is solvable if its number is even.
 */
export function isSolvable(board) {
  const tiles = board.filter((tile) => tile !== 0);
  let inversions = 0;
  for (const [position, left] of tiles.entries()) {
    inversions += tiles.slice(position + 1).filter((right) => right < left).length;
  }
  return inversions % 2 === 0;
}

/** A board as the key of a Map. */
export function keyOf(board) {
  return board.join('');
}

/** The optimal length of every solvable board: one search from the goal. */
export function distancesFromGoal() {
  const distances = new Map([[keyOf(GOAL), 0]]);
  let level = [GOAL];
  for (let distance = 1; level.length > 0; distance += 1) {
    const nextLevel = [];
    for (const board of level) {
      const blank = board.indexOf(0);
      for (const target of NEIGHBOURS[blank].values()) {
        const neighbour = slide(board, blank, target);
        const key = keyOf(neighbour);
        if (!distances.has(key)) {
          distances.set(key, distance);
          nextLevel.push(neighbour);
        }
      }
    }
    level = nextLevel;
  }
  return distances;
}

/**
 * Boards as they come: most solvable, some not, one in a hundred malformed.
 * Each has the reason to expect for it: undefined where the board is well
 * formed, else the ErrorReason.
 */
export function randomBoards(count, seed) {
  const random = randomSource(seed);
  return Array.from({ length: count }, () => {
    const tiles = shuffled(GOAL, random);
    if (!isSolvable(tiles) && random() < 0.8) {
      swapTwoTiles(tiles);
    }
    const fault = random() < 0.01 ? spoil(tiles, random) : undefined;
    return { tiles, fault };
  });
}

// Numbers in [0, 1), the same ones for the same seed (mulberry32).
function randomSource(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function shuffled(items, random) {
  const result = [...items];
  for (let last = result.length - 1; last > 0; last -= 1) {
    const other = Math.floor(random() * (last + 1));
    [result[last], result[other]] = [result[other], result[last]];
  }
  return result;
}

// Swap the first two tiles that are not the blank: parity flips.
function swapTwoTiles(tiles) {
  const [first, second] = [0, 1, 2].filter((cell) => tiles[cell] !== 0);
  [tiles[first], tiles[second]] = [tiles[second], tiles[first]];
}

// Make the board malformed and return the reason that names the fault.
function spoil(tiles, random) {
  const [cell, other] = shuffled([...tiles.keys()], random);
  if (random() < 0.5) {
    tiles[cell] = tiles[other];
    return 'ERROR_REASON_DUPLICATE_TILE';
  }
  tiles[cell] = 9 + Math.floor(random() * 247);
  return 'ERROR_REASON_TILE_OUT_OF_RANGE';
}
