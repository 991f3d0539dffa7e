// Solving a stream of batches: both forms, and putting the answers together.
//
// SolveBatch answers each request by one or more responses. `solveBatch` sends
// the requests, holds every response against the contract and returns, for
// each request, its responses in order. `answersOf` turns those into one answer
// a board, so that a check need not know the form.

import assert from 'node:assert/strict';
import { once } from 'node:events';

const MAX_REQUEST_BYTES = 4 * 1024 * 1024;
export const MAX_RESPONSE_BYTES = 1024 * 1024;
export const MAX_BOARDS = { list: 16_384, packed: 65_536 };
const TEXT_ERRORS = 64;
const DEFAULT_METHOD = 'ALGORITHM_BIDIRECTIONAL_BFS';

/** One request with each board as a message. */
export function listRequest(id, boards) {
  return { id, list: { boards: boards.map((tiles) => ({ tiles })) } };
}

/** One request with all boards in one string of bytes, a byte a tile. */
export function packedRequest(id, boards) {
  return { id, packed: { tiles: Buffer.from(boards.flat()) } };
}

/** Cut the boards into the fewest requests; ids count from 1. */
export function requestsOf(form, boards) {
  const makeRequest = { list: listRequest, packed: packedRequest }[form];
  const size = MAX_BOARDS[form];
  const requests = [];
  for (let first = 0; first < boards.length; first += size) {
    requests.push(makeRequest(requests.length + 1, boards.slice(first, first + size)));
  }
  return requests;
}

/** Send the requests; return the array of responses to each of them. */
export async function solveBatch(client, requests) {
  for (const request of requests) {
    assert(client.batchRequestSize(request) < MAX_REQUEST_BYTES, 'a server may refuse this');
  }
  const stream = client.openBatch(300);
  // Sending and reading go on side by side: a client that first sent
  // everything and only then read could deadlock.
  const [responses] = await Promise.all([receive(stream), send(stream, requests)]);
  return byRequest(requests, responses);
}

async function receive(stream) {
  const responses = [];
  for await (const response of stream) {
    responses.push(response);
  }
  return responses; // a status other than OK throws
}

async function send(stream, requests) {
  for (const request of requests) {
    const mayGoOn = stream.write(request);
    if (!mayGoOn) {
      await once(stream, 'drain');
    }
  }
  stream.end(); // "no more requests": every answer still comes
}

// Group the responses by request, each up to the one with `more` unset.
function byRequest(requests, responses) {
  const unread = responses[Symbol.iterator]();
  const answered = requests.map((request) => responsesTo(request, unread));
  assert(unread.next().done, "a response came after the last request's last");
  return answered;
}

function responsesTo(request, unread) {
  const responses = [];
  let boardsAnswered = 0;
  for (;;) {
    const where = `request ${request.id}, response ${responses.length}`;
    const { value: response, done } = unread.next();
    assert(!done, `${where}: the stream ended before it`);
    assert.equal(response.id, String(request.id), where);
    assert(response.wireSize <= MAX_RESPONSE_BYTES, `${where}: ${response.wireSize} bytes`);
    assert.equal(response.firstBoard, boardsAnswered, `${where}: first_board`);
    const boardsHere = numberOfBoards(response);
    assert(boardsHere > 0 || !response.more, `${where}: empty, with more`);
    boardsAnswered += boardsHere;
    responses.push(response);
    if (!response.more) {
      return responses;
    }
  }
}

function numberOfBoards(response) {
  switch (response.results) {
    case 'list':
      return response.list.results.length;
    case 'packed':
      return response.packed.outcomes.length;
    default:
      return 0;
  }
}

/** One answer a board, from all responses to one request of the form. */
export function answersOf(form, responses) {
  assert(responses.every((response) => response.results === form), `all are ${form}`);
  return form === 'list' ? answersOfList(responses) : answersOfPacked(responses);
}

function answersOfList(responses) {
  return responses.flatMap(({ list }) =>
    list.results.map((result) => {
      if (result.result === 'error') {
        assert(result.error.message, 'an error in a list has a text');
        return failure(result.error);
      }
      return answerOfSolution(result.solution);
    }),
  );
}

function answerOfSolution({ outcome, moves, length, optimal, stats }) {
  assert.equal(moves.length, length);
  assert.equal(optimal, outcome === 'OUTCOME_SOLVED');
  assert.equal(stats.algorithm, DEFAULT_METHOD);
  assert.equal(stats.elapsed, null, 'only unary calls and totals tell the time');
  return { outcome, moves, length };
}

function answersOfPacked(responses) {
  const answers = [];
  const textsSeen = [];
  for (const { packed } of responses) {
    const { outcomes, lengths, moves, errors, allOptimal, totals } = packed;
    assert.equal(lengths.length, outcomes.length);
    assert.equal(
      lengths.reduce((sum, length) => sum + length, 0),
      moves.length,
    );
    assert(allOptimal, 'the default method proves every solution');
    assert.equal(totals.algorithm, DEFAULT_METHOD);
    assert(Number(totals.expanded) > 0, 'totals say how many states were expanded');
    assert(Number(totals.generated) > 0, 'totals say how many states were generated');
    assert(totals.elapsed, 'totals tell the time');

    const errorAt = new Map(errors.map(({ index, error }) => [index, error]));
    const failed = [...outcomes.keys()].filter((i) => outcomes[i] === 'OUTCOME_ERROR');
    assert.deepEqual([...errorAt.keys()], failed, '`errors` names exactly the failed boards');
    textsSeen.push(...errors.map(({ error }) => error.message !== ''));

    let start = 0;
    for (const [index, outcome] of outcomes.entries()) {
      const length = lengths[index];
      const error = errorAt.get(index);
      answers.push(
        error ? failure(error) : { outcome, moves: moves.slice(start, start + length), length },
      );
      start += length;
    }
  }
  const expected = textsSeen.map((_, position) => position < TEXT_ERRORS);
  assert.deepEqual(textsSeen, expected, `exactly the first ${TEXT_ERRORS} errors carry a text`);
  return answers;
}

function failure({ reason }) {
  return { outcome: 'OUTCOME_ERROR', moves: '', length: 0, reason };
}
