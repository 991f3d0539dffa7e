//! Responses from the answers to pieces.

use std::collections::VecDeque;

use super::super::convert;
use super::super::parts::{MAX_ERROR_TEXTS, PART_BYTES, Part, Parts};
use super::message::Batch;
use super::piece::Piece;
use crate::wire::v1::{PackedError, ResultList, SolveBatchResponse, solve_batch_response};

/// Joins the parts of a message to its responses.
#[derive(Default)]
pub(super) struct Assembler {
    /// The response that grows.
    growing: Option<Part>,
    /// The index in the message of its first board.
    first_board: usize,
    /// The errors of the message that were answered so far.
    errors: usize,
    pub(super) ready: VecDeque<SolveBatchResponse>,
}

impl Assembler {
    pub(super) fn add(&mut self, piece: &Piece, parts: Parts) {
        for part in parts {
            self.growing = match (self.growing.take(), part) {
                (Some(grown), part) if grown.bytes() + part.bytes() > PART_BYTES => {
                    self.send(&piece.batch, grown, true);
                    Some(part)
                }
                (Some(Part::List(mut grown)), Part::List(part)) => {
                    grown.bytes += part.bytes;
                    grown.results.extend(part.results);
                    Some(Part::List(grown))
                }
                (Some(Part::Packed(mut grown)), Part::Packed(part)) => {
                    grown.append(part);
                    Some(Part::Packed(grown))
                }
                // The first part; a message never mixes the forms.
                (_, part) => Some(part),
            };
        }
        if piece.ends_response
            && let Some(grown) = self.growing.take()
        {
            self.send(&piece.batch, grown, !piece.ends_message());
        }
    }

    /// Answers all of a message, while nothing grows: as [`Assembler::add`] does
    /// with a message of one piece. The first response; the others are ready.
    pub(super) fn answer(&mut self, batch: &Batch, parts: Parts) -> SolveBatchResponse {
        if parts.full.is_empty() {
            return self.respond(batch, parts.last, false);
        }
        for part in parts.full {
            self.send(batch, part, true);
        }
        let last = self.respond(batch, parts.last, false);
        match self.ready.pop_front() {
            Some(first) => {
                self.ready.push_back(last);
                first
            }
            None => last,
        }
    }

    fn send(&mut self, batch: &Batch, part: Part, more: bool) {
        let response = self.respond(batch, part, more);
        self.ready.push_back(response);
    }

    /// Makes a part a response.
    #[inline]
    fn respond(&mut self, batch: &Batch, part: Part, more: bool) -> SolveBatchResponse {
        let boards = part.boards();
        let results = match part {
            Part::List(part) => solve_batch_response::Results::List(ResultList {
                results: part.results,
            }),
            Part::Packed(part) => {
                let mut results = part.results;
                let errors = part.errors.into_iter().map(|(index, fault)| {
                    self.errors += 1;
                    let error = if self.errors <= MAX_ERROR_TEXTS {
                        fault.to_board_error()
                    } else {
                        fault.to_bare_board_error()
                    };
                    PackedError {
                        index: saturate(index),
                        error: Some(error),
                    }
                });
                results.errors = errors.collect();
                let elapsed = part.run.elapsed;
                results.totals = Some(convert::stats(
                    batch.options.method,
                    part.run.expanded,
                    part.generated,
                    (!elapsed.is_zero()).then_some(elapsed),
                ));
                solve_batch_response::Results::Packed(results)
            }
        };
        let response = SolveBatchResponse {
            id: batch.id,
            results: Some(results),
            first_board: saturate(self.first_board),
            more,
        };
        if more {
            self.first_board += boards;
        } else {
            self.first_board = 0;
            self.errors = 0;
        }
        response
    }
}

/// A board's index as the wire has it. Messages are limited to far fewer
/// boards than would saturate.
fn saturate(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
