// Checks a running Loyd server with grpc-js, as a Node program would use it.
//
//     node checks.js 127.0.0.1:50051 ../../../proto
//
// Each check is a function. It prints `ok <name>` or `FAILED <name>` with the
// reason, and the last line counts them.

import assert from 'node:assert/strict';
import grpc from '@grpc/grpc-js';
import * as batch from './batch.js';
import * as puzzle from './puzzle.js';
import { connect, detailsOf } from './client.js';

const SAMPLE = [2, 3, 4, 1, 5, 0, 7, 6, 8]; // needs 19 moves
const UNSOLVABLE = [2, 1, 3, 4, 5, 6, 7, 8, 0];
const BATCH_SIZE = 100_000;
const SEED = 15;

// Unary calls

async function unary_call_solves_the_sample(client) {
  const { solution } = await client.solve({ board: { tiles: SAMPLE } });
  assert.equal(solution.outcome, 'OUTCOME_SOLVED');
  assert.equal(solution.length, 19);
  assert.equal(solution.moves.length, 19);
  assert.equal(solution.optimal, true);
  assert.deepEqual(puzzle.replay(SAMPLE, solution.moves), puzzle.GOAL);
}

async function unsolvable_is_an_answer_not_an_error(client) {
  const { solution } = await client.solve({ board: { tiles: UNSOLVABLE } });
  assert.equal(solution.outcome, 'OUTCOME_UNSOLVABLE');
  assert.equal(solution.moves, '');
  assert.equal(solution.length, 0);
}

async function malformed_board_is_invalid_argument_with_details(client) {
  const board = { tiles: [1, 2, 3, 4, 4, 6, 7, 8, 0] };
  const error = await client.solve({ board }).then(
    () => assert.fail('a board with two 4s was accepted'),
    (failure) => failure,
  );
  assert.equal(error.code, grpc.status.INVALID_ARGUMENT, error.message);
  const { BadRequest, ErrorInfo } = detailsOf(error);
  assert.deepEqual(
    BadRequest.fieldViolations.map(({ field }) => field),
    ['board.tiles[4]'],
  );
  assert.equal(ErrorInfo.reason, 'DUPLICATE_TILE');
  assert.equal(ErrorInfo.domain, 'loyd.v1');
}

// Streams of batches

async function batch_of_lists_is_solved_optimally(client) {
  checkAnswers(await batchAnswers(client, 'list'));
}

async function batch_of_packed_boards_is_solved_optimally(client) {
  checkAnswers(await batchAnswers(client, 'packed'));
}

async function list_and_packed_agree_in_lengths(client) {
  const asList = await batchAnswers(client, 'list');
  const asPacked = await batchAnswers(client, 'packed');
  const different = asList.findIndex(({ length }, i) => length !== asPacked[i].length);
  assert.equal(different, -1, `the first board with two lengths has index ${different}`);
}

async function large_answer_comes_in_several_responses(client) {
  const [responses] = await batchResponses(client, 'packed');
  const size = responses.reduce((sum, { wireSize }) => sum + wireSize, 0);
  assert(size > batch.MAX_RESPONSE_BYTES, `only ${size} bytes: the check is void`);
  assert(responses.length > 1, `${size} bytes in one response`);
}

async function bad_request_in_a_stream_is_answered_and_the_stream_goes_on(client) {
  const unknownAlgorithm = {
    ...batch.packedRequest(2, [SAMPLE]),
    options: { algorithm: 99 },
  };
  const requests = [
    batch.packedRequest(1, [SAMPLE]),
    unknownAlgorithm,
    batch.packedRequest(3, [SAMPLE]),
  ];
  const [[before], [refused], [after]] = await batch.solveBatch(client, requests);
  assert.equal(refused.results, 'error');
  assert.equal(refused.error.reason, 'ERROR_REASON_UNKNOWN_ENUM_VALUE');
  for (const response of [before, after]) {
    assert.equal(batch.answersOf('packed', [response])[0].length, 19);
  }
}

async function stream_without_requests_ends_ok(client) {
  assert.deepEqual(await batch.solveBatch(client, []), []);
}

// Health

async function health_of_server_and_service_is_serving(client) {
  for (const service of ['', 'loyd.v1.SolverService']) {
    const { status } = await client.checkHealth(service);
    assert.equal(status, 'SERVING', `'${service}'`);
  }
}

async function health_of_an_unknown_name_is_not_found(client) {
  await assert.rejects(client.checkHealth('nobody'), { code: grpc.status.NOT_FOUND });
}

// What the checks share

// The value that `make` gives, made once for each set of arguments after the
// first, which is the client.
function remembered(make) {
  const known = new Map();
  return (client, ...key) => {
    const name = key.join();
    if (!known.has(name)) {
      known.set(name, make(client, ...key));
    }
    return known.get(name);
  };
}

const randomBoards = remembered(() => puzzle.randomBoards(BATCH_SIZE, SEED));

const optimalLengths = remembered(() => {
  const distances = puzzle.distancesFromGoal();
  assert.equal(distances.size, 181_440);
  return distances;
});

const batchResponses = remembered((client, form) => {
  const boards = randomBoards().map(({ tiles }) => tiles);
  return batch.solveBatch(client, batch.requestsOf(form, boards));
});

const batchAnswers = remembered(async (client, form) => {
  const answered = await batchResponses(client, form);
  return answered.flatMap((responses) => batch.answersOf(form, responses));
});

// Hold an answer to each random board against what this client knows.
function checkAnswers(answers) {
  assert.equal(answers.length, BATCH_SIZE);
  const counts = { OUTCOME_SOLVED: 0, OUTCOME_UNSOLVABLE: 0, OUTCOME_ERROR: 0 };
  for (const [index, { tiles, fault }] of randomBoards().entries()) {
    const { outcome, moves, length, reason } = answers[index];
    const where = `board ${tiles}`;
    if (fault) {
      assert.equal(outcome, 'OUTCOME_ERROR', where);
      assert.equal(reason, fault, where);
    } else if (!puzzle.isSolvable(tiles)) {
      assert.equal(outcome, 'OUTCOME_UNSOLVABLE', where);
      assert.equal(moves, '', where);
    } else {
      assert.equal(outcome, 'OUTCOME_SOLVED', where);
      assert.equal(length, optimalLengths().get(puzzle.keyOf(tiles)), where);
      const reached = puzzle.keyOf(puzzle.replay(tiles, moves));
      assert.equal(reached, puzzle.keyOf(puzzle.GOAL), where);
    }
    counts[outcome] += 1;
  }
  assert(Math.min(...Object.values(counts)) > 100, `not a mix: ${JSON.stringify(counts)}`);
}

const CHECKS = [
  unary_call_solves_the_sample,
  unsolvable_is_an_answer_not_an_error,
  malformed_board_is_invalid_argument_with_details,
  batch_of_lists_is_solved_optimally,
  batch_of_packed_boards_is_solved_optimally,
  list_and_packed_agree_in_lengths,
  large_answer_comes_in_several_responses,
  bad_request_in_a_stream_is_answered_and_the_stream_goes_on,
  stream_without_requests_ends_ok,
  health_of_server_and_service_is_serving,
  health_of_an_unknown_name_is_not_found,
];

async function main([address, protoDirectory]) {
  const client = connect(address, protoDirectory);
  let failed = 0;
  for (const check of CHECKS) {
    try {
      await check(client);
      console.log(`ok ${check.name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED ${check.name}: ${error.message}`);
      console.log(error);
    }
  }
  client.close();
  console.log(`${CHECKS.length - failed} passed, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
}

await main(process.argv.slice(2));
