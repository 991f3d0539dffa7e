//! Best-first search: A*, weighted A* and greedy.
//!
//! A* orders states by `f = g + h` (P. E. Hart, N. J. Nilsson and B. Raphael,
//! "A Formal Basis for the Heuristic Determination of Minimum Cost Paths",
//! 1968), weighted A* by `f = g + w * h` (I. Pohl, 1970), greedy search by `h`
//! alone (J. E. Doran and D. Michie, 1966). `g` is the number of moves so far.
//!
//! The heuristics are consistent, so no state is expanded twice: A* has found
//! the shortest way to a state when it expands it, and weighted A* that does
//! not look back still finds a way at most `w` times as long as the shortest
//! (M. Likhachev, G. Gordon and S. Thrun, "ARA*", 2003).
//!
//! Of states that are equally good the latest is expanded first: it is a
//! *stack* for each value of `f` where those are whole numbers or small
//! fractions, and a heap where they are not. So a search always does the same.
//! A* without a weight has a loop of its own, `search::plain_a_star`.

#![expect(
    clippy::cast_possible_truncation,
    reason = "entries are fewer than 20 bits count"
)]
#![expect(
    clippy::indexing_slicing,
    reason = "indices are those of states, or masked to the length of their array"
)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::arrays::{clear, filled_box};
use super::heuristic;
use super::index::Place;
use super::meter::{Meter, Stop};
use super::plain_a_star::{self, Levels};
use super::route::Route;
use super::transitions::{INDICES, Packed, half_of, index_of, pack_root};
use super::workspace::Workspace;
use super::{Budget, Detail, Heuristic, Interrupted, Outcome, SearchOptions, Solution, Weight};
use crate::puzzle::Direction;

/// The part of a [`Workspace`] that these methods use.
pub(super) struct BestFirst {
    nodes: Nodes,
    levels: Levels,
    stacks: Stacks,
    heap: Heap,
    /// The moves of a solution, the last one first.
    path: Vec<Direction>,
}

impl BestFirst {
    /// An empty one.
    pub(super) fn new() -> BestFirst {
        BestFirst {
            nodes: Nodes::new(),
            levels: Levels::new(),
            stacks: Stacks::new(),
            heap: Heap::default(),
            path: Vec::new(),
        }
    }
}

/// Solves a problem whose start is not its goal by A*, weighted or not.
pub(super) fn a_star(
    workspace: &mut Workspace,
    route: &Route,
    options: &SearchOptions,
    budget: &Budget<'_>,
    moves: &mut String,
) -> Result<Solution, Interrupted> {
    let order = if options.weight == Weight::ONE {
        Order::Plain
    } else {
        order_of(options.weight)
    };
    solve(workspace, route, options, order, budget, moves)
}

/// Solves a problem whose start is not its goal, greedily.
pub(super) fn greedy(
    workspace: &mut Workspace,
    route: &Route,
    options: &SearchOptions,
    budget: &Budget<'_>,
    moves: &mut String,
) -> Result<Solution, Interrupted> {
    let order = Order::Whole { g: 0, h: 1 };
    solve(workspace, route, options, order, budget, moves)
}

/// What states are ordered by, least first.
#[derive(Clone, Copy)]
enum Order {
    /// `g + h`, which proves that nothing is shorter.
    Plain,
    /// So many times `g` and so many times `h`, less than [`STACKS`] in all.
    Whole { g: u32, h: u32 },
    /// `g` and so many times `h`.
    Fractional(f64),
}

/// More than any whole `f`. A state in the queue has a parent whose `f` was at
/// most `w` times the solution's length, at most 36, and is worse than it by
/// at most `1 + w`.
const STACKS: usize = 1 << 12;

/// The order of weighted A*: the same, but for rounding, whichever it is.
fn order_of(weight: Weight) -> Order {
    const MOST: u32 = STACKS as u32 / 40;
    for g in [1, 2, 4, 8, 16] {
        for h in 1..=MOST {
            if f64::from(h) == weight.get() * f64::from(g) {
                return Order::Whole { g, h };
            }
        }
    }
    // From a weight on that no number of moves makes up for, the order is that
    // by h, then g, whatever the weight: there is no need for sums that would
    // be rounded, or overflow.
    Order::Fractional(weight.get().min(f64::from(CLOSED)))
}

fn solve(
    workspace: &mut Workspace,
    route: &Route,
    options: &SearchOptions,
    order: Order,
    budget: &Budget<'_>,
    moves: &mut String,
) -> Result<Solution, Interrupted> {
    let BestFirst {
        nodes,
        levels,
        stacks,
        heap,
        path,
    } = workspace.best_first();
    let (transitions, goal_blank) = (route.transitions, route.goal.cell);
    let estimates = heuristic::table(options.heuristic, transitions, goal_blank);
    let bound = u32::from(estimates[route.start.index()]);
    let mut meter = Meter::new(options, budget);
    let found = match order {
        Order::Plain => {
            let rises = heuristic::rises(options.heuristic, transitions, goal_blank);
            let search = match options.heuristic {
                Heuristic::MisplacedTiles => plain_a_star::search::<true>,
                Heuristic::Manhattan | Heuristic::LinearConflict => plain_a_star::search::<false>,
            };
            let level = search(route, rises, levels, &mut meter);
            level.map(|found| found.map(|level| bound + level))
        }
        Order::Whole { g, h } => {
            let f = |depth: u32, estimate: u8| g * depth + h * u32::from(estimate);
            search(
                route,
                estimates,
                nodes.begin(),
                stacks.begin(),
                f,
                &mut meter,
            )
        }
        Order::Fractional(weight) => {
            let f = |depth: u32, estimate: u8| f64::from(depth) + weight * f64::from(estimate);
            search(route, estimates, nodes.begin(), heap.begin(), f, &mut meter)
        }
    };
    let length = match found {
        Ok(Some(length)) => length,
        // Parity says that the ends are connected, so this is not reached.
        Ok(None) => return Ok(meter.solution(Outcome::Unsolvable)),
        Err(stop) => return meter.stopped(stop),
    };
    if options.detail == Detail::Moves {
        let arrival = |place: Place| match order {
            Order::Plain => levels.arrival(place),
            Order::Whole { .. } | Order::Fractional(_) => nodes.arrival(place),
        };
        walk_back(route, length, arrival, path);
        moves.extend(path.iter().rev().map(|direction| direction.letter()));
    }
    Ok(meter.solution(Outcome::Solved {
        length,
        // Nothing is shorter than the estimate.
        optimal: matches!(order, Order::Plain) || length == bound,
    }))
}

/// Searches, and returns the number of moves that lead to the goal.
#[inline]
fn search<Q: Queue>(
    route: &Route,
    estimates: &[u8; INDICES],
    mut nodes: Running<'_>,
    mut queue: Q,
    f: impl Fn(u32, u8) -> Q::F,
    meter: &mut Meter<'_>,
) -> Result<Option<u32>, Stop> {
    let transitions = route.transitions;
    let added = transitions.added();
    let root = pack_root(route.start);
    let goal = route.goal.index();
    queue.push(f(0, estimates[index_of(root)]), root);
    nodes.reach(index_of(root), 0, Direction::Up);
    let mut granted = meter.grant(usize::MAX)?;
    let mut expanded = 0;
    // Each state has a way back besides its moves on, but for the first.
    let mut roots = 1;
    let mut onward = 0;
    let found = loop {
        let Some(state) = queue.pop() else {
            break Ok(None);
        };
        let index = index_of(state);
        // One that is closed was reached by a better way after it got here.
        let Some(depth) = nodes.open_depth(index) else {
            continue;
        };
        if index == goal {
            break Ok(Some(depth));
        }
        if expanded == granted {
            meter.spend(expanded, onward + expanded as u64 - roots);
            (expanded, onward, roots) = (0, 0, 0);
            match meter.grant(usize::MAX) {
                Ok(more) => granted = more,
                Err(stop) => break Err(stop),
            }
        }
        nodes.close(index);
        let exits = transitions.exits(state);
        expanded += 1;
        onward += exits.len() as u64;
        for exit in exits {
            let next = added.follow(exit, half_of(state));
            let next_index = index_of(next);
            let is_better = nodes.reach(next_index, depth + 1, exit.direction);
            if is_better {
                queue.push(f(depth + 1, estimates[next_index]), next);
            }
        }
    };
    meter.spend(expanded, onward + expanded as u64 - roots);
    found
}

/// What is known of each state: how it was reached, and whether it is closed.
///
/// From the top of a word: twelve bits of *age*, eighteen of *closeness*, two
/// of the move. A closer way is one of fewer moves; a closed state is closer
/// than any way makes it. Ages count up from search to search, so a state that
/// this one has not reached is farther than any.
struct Nodes {
    words: Box<[u32; INDICES]>,
    age: u32,
}

const MOVE_BITS: u32 = 2;
const CLOSENESS_BITS: u32 = 18;
const AGE: u32 = 1 << (MOVE_BITS + CLOSENESS_BITS);
const CLOSED: u32 = (1 << CLOSENESS_BITS) - 1;

impl Nodes {
    fn new() -> Nodes {
        Nodes {
            words: filled_box(0),
            age: 0,
        }
    }

    /// Forgets all states.
    fn begin(&mut self) -> Running<'_> {
        self.age = self.age.checked_add(AGE).unwrap_or_else(|| {
            clear(&mut self.words);
            AGE
        });
        Running {
            words: &mut self.words,
            age: self.age,
        }
    }

    /// The move by which the best way leads to a state that was reached.
    fn arrival(&self, place: Place) -> Direction {
        Direction::ALL[self.words[place.index()] as usize & 3]
    }
}

/// The moves from the start to the goal, the last one first.
fn walk_back(
    route: &Route,
    length: u32,
    arrival: impl Fn(Place) -> Direction,
    path: &mut Vec<Direction>,
) {
    path.clear();
    let mut place = route.goal;
    for _ in 0..length {
        let direction = arrival(place);
        path.push(direction);
        place = route.transitions.step(place, direction.opposite());
    }
}

/// The nodes of a search that runs. Like the queues it is made for one search
/// and passed by value, so that its parts are kept in registers.
struct Running<'a> {
    words: &'a mut [u32; INDICES],
    age: u32,
}

impl Running<'_> {
    /// Notes a way to a state, if it is better than those known, and tells
    /// whether it is.
    #[inline]
    fn reach(&mut self, index: usize, depth: u32, direction: Direction) -> bool {
        let word = &mut self.words[index];
        let new = self.age | (CLOSED - 1 - depth) << MOVE_BITS | direction as u32;
        let is_better = new >> MOVE_BITS > *word >> MOVE_BITS;
        if is_better {
            *word = new;
        }
        is_better
    }

    /// The length of the best way known to a state that was reached and is not
    /// closed.
    #[inline]
    fn open_depth(&self, index: usize) -> Option<u32> {
        let closeness = self.words[index] >> MOVE_BITS & CLOSED;
        (CLOSED - 1).checked_sub(closeness)
    }

    #[inline]
    fn close(&mut self, index: usize) {
        self.words[index] |= CLOSED << MOVE_BITS;
    }
}

/// The states that are reached and not expanded, of which that with the least
/// `f` is next, and of several the latest.
trait Queue {
    type F;
    fn push(&mut self, f: Self::F, state: Packed);
    fn pop(&mut self) -> Option<Packed>;
}

/// A stack for each `f`: lists through one array.
struct Stacks {
    /// A state, and the entry below it in its stack.
    entries: Box<[(Packed, u32); ENTRIES]>,
    /// The top entry of each stack, or 0.
    tops: Box<[u32; STACKS]>,
}

/// More than all the moves between states of 3x3, 483,840: a way that is found
/// to be better is pushed once, when the state that it comes from is expanded.
const ENTRIES: usize = 1 << 19;

impl Stacks {
    fn new() -> Stacks {
        Stacks {
            entries: filled_box((0, 0)),
            tops: filled_box(0),
        }
    }

    /// Empties them.
    fn begin(&mut self) -> RunningStacks<'_> {
        self.tops.fill(0);
        RunningStacks {
            entries: &mut self.entries,
            tops: &mut self.tops,
            count: 1,
            first: STACKS,
        }
    }
}

/// The stacks of a search that runs.
struct RunningStacks<'a> {
    entries: &'a mut [(Packed, u32); ENTRIES],
    tops: &'a mut [u32; STACKS],
    count: usize,
    /// There is nothing in the stacks before this one.
    first: usize,
}

impl Queue for RunningStacks<'_> {
    type F = u32;

    #[inline(always)]
    fn push(&mut self, f: u32, state: Packed) {
        let f = f as usize & (STACKS - 1);
        self.entries[self.count & (ENTRIES - 1)] = (state, self.tops[f]);
        self.tops[f] = self.count as u32;
        self.count += 1;
        self.first = self.first.min(f);
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<Packed> {
        while self.first < STACKS {
            let top = &mut self.tops[self.first & (STACKS - 1)];
            if *top != 0 {
                let (state, below) = self.entries[*top as usize & (ENTRIES - 1)];
                *top = below;
                return Some(state);
            }
            self.first += 1;
        }
        None
    }
}

/// A heap, for an `f` that counts no stacks.
#[derive(Default)]
struct Heap {
    /// The bits of an `f` that is not negative are in the order of its values;
    /// then comes the number of states before.
    states: BinaryHeap<(Reverse<u64>, u32, Packed)>,
}

impl Heap {
    /// Empties it.
    fn begin(&mut self) -> RunningHeap<'_> {
        self.states.clear();
        RunningHeap {
            states: &mut self.states,
            count: 0,
        }
    }
}

/// The heap of a search that runs.
struct RunningHeap<'a> {
    states: &'a mut BinaryHeap<(Reverse<u64>, u32, Packed)>,
    count: u32,
}

impl Queue for RunningHeap<'_> {
    type F = f64;

    #[inline]
    fn push(&mut self, f: f64, state: Packed) {
        self.states.push((Reverse(f.to_bits()), self.count, state));
        self.count += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<Packed> {
        self.states.pop().map(|(_, _, state)| state)
    }
}
