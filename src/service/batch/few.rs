//! Messages of a few boards from the goal table.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::super::parts::{find, outcome_number, room_for};
use super::super::{convert, tally};
use super::message::{Batch, Boards};
use crate::puzzle::Board;
use crate::search::goal_table::{Found, LastSolutions};
use crate::search::{Detail, Method};
use crate::telemetry::metrics::Run;
use crate::wire::v1::{Outcome, SolveBatchResponse, solve_batch_response};

/// In messages of more boards than that the waits for the memory overlap, and
/// all is as fast without.
const FEW: usize = 4;

/// A message that was found in the goal table and is not answered yet: what the
/// answer needs comes from the memory while the next message is read. To wait
/// for it is otherwise a twentieth of what a message of one board costs.
pub(super) struct Few {
    id: u64,
    goal: Board,
    detail: Detail,
    found: [Found; FEW],
    boards: usize,
}

impl Few {
    /// Finds the boards of a message. `None` where they are many, in list form,
    /// to be searched, or malformed.
    #[inline]
    pub(super) fn find(batch: &Batch, solutions: &mut LastSolutions) -> Option<Few> {
        let Boards::Packed { tiles, shape, goal } = &batch.boards else {
            return None;
        };
        if batch.len > FEW || batch.options.method != Method::GoalTable {
            return None;
        }
        let solutions = solutions.to(goal);
        let mut found = [Found::NONE; FEW];
        let all_found = catch_unwind(AssertUnwindSafe(|| {
            for (found, tiles) in found.iter_mut().zip(tiles.chunks_exact(shape.cells())) {
                let start = Board::from_bytes(*shape, tiles).ok()?;
                *found = find(solutions, &start);
                solutions.prefetch(*found);
            }
            Some(())
        }));
        all_found.ok().flatten().map(|()| Few {
            id: batch.id,
            goal: *goal,
            detail: batch.options.detail,
            found,
            boards: batch.len,
        })
    }

    /// The answer to the message, and what came of its boards.
    #[inline]
    pub(super) fn answer(self, solutions: &mut LastSolutions) -> (SolveBatchResponse, Run) {
        let solutions = solutions.to(&self.goal);
        let mut results = room_for(self.boards);
        let mut run = Run::default();
        for &found in self.found.iter().take(self.boards) {
            let fetched = solutions.fetch(found);
            let length = solutions.length_of(fetched, self.detail, &mut results.moves);
            let outcome = match length {
                Some(_) => Outcome::Solved,
                None => Outcome::Unsolvable,
            };
            tally::count(&mut run, outcome, 1);
            results.outcomes.push(outcome_number(outcome).into());
            results.lengths.push(length.unwrap_or_default().into());
        }
        results.totals = Some(convert::stats(Method::GoalTable, 0, 0, None));
        let response = SolveBatchResponse {
            id: self.id,
            results: Some(solve_batch_response::Results::Packed(results)),
            first_board: 0,
            more: false,
        };
        (response, run)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::super::super::Settings;
    use super::super::assembler::Assembler;
    use super::super::message::read;
    use super::super::piece::look_up;
    use super::*;
    use crate::puzzle::{Shape, cantor};
    use crate::search::Budget;
    use crate::wire::v1 as wire;

    fn message(
        shape: Shape,
        boards: &[Vec<u8>],
        options: wire::SolveOptions,
    ) -> wire::SolveBatchRequest {
        let (rows, columns) = shape.sides();
        let boards = wire::PackedBoards {
            rows,
            columns,
            tiles: boards.concat().into(),
        };
        wire::SolveBatchRequest {
            id: 7,
            boards: Some(wire::solve_batch_request::Boards::Packed(boards)),
            goal: None,
            options: Some(options),
        }
    }

    fn options(algorithm: wire::Algorithm, detail: wire::Detail) -> wire::SolveOptions {
        wire::SolveOptions {
            algorithm: algorithm.into(),
            detail: detail.into(),
            ..wire::SolveOptions::default()
        }
    }

    /// Some boards of a shape, half of them unsolvable.
    fn boards(shape: Shape, count: usize) -> Vec<Vec<u8>> {
        let cells = shape.cells();
        let all = cantor::factorial(u8::try_from(cells).unwrap().into());
        let ranks = (1..).map(|number| number * 7919 % all);
        let board = |rank| {
            let mut tiles = vec![0; cells];
            cantor::unrank(rank, &mut tiles);
            tiles
        };
        ranks.map(board).take(count).collect()
    }

    #[test]
    fn the_answer_is_that_of_any_look_up() {
        let detail = [wire::Detail::Moves, wire::Detail::LengthOnly];
        for (rows, columns) in [(3, 3), (2, 4), (4, 2), (2, 3), (3, 2), (2, 2)] {
            let shape = Shape::new(rows, columns).unwrap();
            for (count, detail) in (1..=FEW).flat_map(|count| detail.map(|detail| (count, detail)))
            {
                let options = options(wire::Algorithm::GoalTable, detail);
                let message = message(shape, &boards(shape, count), options);
                let batch = read(message, &Settings::default()).unwrap();
                let mut solutions = LastSolutions::default();
                let few = Few::find(&batch, &mut solutions).unwrap();
                let (response, run) = few.answer(&mut solutions);

                let parts = look_up(&batch, &(0..count), &Budget::UNLIMITED, &mut solutions);
                let parts = parts.unwrap().unwrap();
                assert_eq!(run.outcomes, parts.run().outcomes);
                let other = Assembler::default().answer(&batch, parts);
                assert_eq!(response, other, "{rows}x{columns}, {count} boards");
            }
        }
    }

    /// All else is answered otherwise.
    #[test]
    fn only_a_few_good_boards_of_the_table_are_found() {
        let shape = Shape::EIGHT;
        let table = options(wire::Algorithm::GoalTable, wire::Detail::Moves);
        let searched = options(wire::Algorithm::Bfs, wire::Detail::Moves);
        let bad = [boards(shape, 1), vec![vec![8; 9]]].concat();
        for (message, is_found) in [
            (message(shape, &boards(shape, FEW), table), true),
            (message(shape, &boards(shape, FEW + 1), table), false),
            (message(shape, &boards(shape, 1), searched), false),
            (message(shape, &bad, table), false),
        ] {
            let batch = read(message, &Settings::default()).unwrap();
            let few = Few::find(&batch, &mut LastSolutions::default());
            assert_eq!(few.is_some(), is_found);
        }
    }
}
