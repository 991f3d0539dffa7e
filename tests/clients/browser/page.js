// What the page does: calls the server at ?server=... and reports to where the
// page came from. Bundled with its packages by esbuild.

import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createGrpcWebTransport } from '@connectrpc/connect-web';
import {
  Outcome,
  SolveBatchRequestSchema,
  SolveBatchResponseSchema,
  SolverService,
} from './gen/loyd/v1/solver_pb.js';

const SAMPLE = [2, 3, 4, 1, 5, 0, 7, 6, 8]; // needs 19 moves
const UNSOLVABLE = [2, 1, 3, 4, 5, 6, 7, 8, 0];
const THREE_MOVES = [1, 2, 3, 0, 4, 6, 7, 5, 8];

const parameters = new URLSearchParams(location.search);
const baseUrl = parameters.get('server');
const client = createClient(SolverService, createGrpcWebTransport({ baseUrl }));

function check(holds, what) {
  if (!holds) throw new Error(what);
}

async function failureOf(promise) {
  try {
    await promise;
  } catch (error) {
    return ConnectError.from(error);
  }
  throw new Error('it did not fail');
}

// Where this page may call.

async function a_generated_client_solves_the_sample() {
  const { solution } = await client.solve({ board: { tiles: SAMPLE } });
  check(solution.outcome === Outcome.SOLVED, `outcome ${solution.outcome}`);
  check(solution.length === 19 && solution.moves.length === 19, solution.moves);
  check(solution.optimal, 'it is not told to be optimal');
}

async function unsolvable_is_an_answer() {
  const { solution } = await client.solve({ board: { tiles: UNSOLVABLE } });
  check(solution.outcome === Outcome.UNSOLVABLE, `outcome ${solution.outcome}`);
}

async function an_error_has_its_code_text_and_details() {
  const tiles = [1, 2, 3, 4, 4, 6, 7, 8, 0];
  const error = await failureOf(client.solve({ board: { tiles } }));
  check(error.code === Code.InvalidArgument, `code ${error.code}`);
  check(error.rawMessage.includes('tile 4 appears twice'), error.rawMessage);
  const types = error.details.map(({ type }) => type);
  check(types.includes('google.rpc.ErrorInfo'), `details ${types}`);
}

async function a_deadline_is_kept() {
  const call = client.solve({ board: { tiles: SAMPLE } }, { timeoutMs: 10_000 });
  check((await call).solution.length === 19, 'it is not solved');
}

async function many_calls_at_once_are_answered() {
  const calls = Array.from({ length: 50 }, () => client.solve({ board: { tiles: THREE_MOVES } }));
  for (const { solution } of await Promise.all(calls)) {
    check(solution.moves === 'rdr', solution.moves);
  }
}

// No browser streams a request while it reads the response, so generated
// clients leave SolveBatch out. All requests in one body do work.

async function a_batch_in_one_body_is_answered_in_order() {
  const bytes = await batch('application/grpc-web+proto', (body) => body);
  checkBatch(new Uint8Array(await bytes.arrayBuffer()));
}

async function a_batch_in_base64_is_answered_in_order() {
  const response = await batch('application/grpc-web-text', (body) =>
    btoa(String.fromCharCode(...body)),
  );
  // Each part of the answer is encoded by itself, with its own padding.
  const parts = (await response.text()).match(/[^=]+={0,2}/g);
  const bytes = parts.flatMap((part) => [...atob(part)].map((letter) => letter.charCodeAt(0)));
  checkBatch(Uint8Array.from(bytes));
}

function batch(contentType, encode) {
  const messages = [1n, 2n, 3n].map((id) => {
    const packed = { tiles: Uint8Array.from([...THREE_MOVES, ...UNSOLVABLE]) };
    const boards = { case: 'packed', value: packed };
    return toBinary(SolveBatchRequestSchema, create(SolveBatchRequestSchema, { id, boards }));
  });
  return fetch(`${baseUrl}/loyd.v1.SolverService/SolveBatch`, {
    method: 'POST',
    headers: { 'content-type': contentType, accept: contentType, 'x-grpc-web': '1' },
    body: encode(Uint8Array.from(messages.flatMap((message) => [...framed(message)]))),
  });
}

function framed(message) {
  const frame = new Uint8Array(5 + message.length);
  new DataView(frame.buffer).setUint32(1, message.length);
  frame.set(message, 5);
  return frame;
}

function checkBatch(bytes) {
  const view = new DataView(bytes.buffer);
  const answers = [];
  let trailers = '';
  for (let at = 0; at < bytes.length; ) {
    const length = view.getUint32(at + 1);
    const payload = bytes.subarray(at + 5, at + 5 + length);
    if (bytes[at] & 0x80) trailers = new TextDecoder().decode(payload);
    else answers.push(fromBinary(SolveBatchResponseSchema, payload));
    at += 5 + length;
  }
  check(answers.map(({ id }) => id).join() === '1,2,3', `${answers.length} answers`);
  for (const { results } of answers) {
    const expected = [Outcome.SOLVED, Outcome.UNSOLVABLE].join();
    check(results.value.outcomes.join() === expected, results.value.outcomes.join());
    check(results.value.moves === 'rdr', results.value.moves);
  }
  check(/grpc-status: ?0\r\n/.test(trailers), `trailers ${trailers}`);
}

// Where it may not.

async function the_browser_lets_nothing_through() {
  const error = await failureOf(client.solve({ board: { tiles: SAMPLE } }));
  check(/failed to fetch/i.test(error.rawMessage), error.rawMessage);
}

const CHECKS = {
  allowed: [
    a_generated_client_solves_the_sample,
    unsolvable_is_an_answer,
    an_error_has_its_code_text_and_details,
    a_deadline_is_kept,
    many_calls_at_once_are_answered,
    a_batch_in_one_body_is_answered_in_order,
    a_batch_in_base64_is_answered_in_order,
  ],
  foreign: [the_browser_lets_nothing_through],
};

const report = [];
for (const run of CHECKS[parameters.get('checks')]) {
  try {
    await run();
    report.push(`ok ${run.name}`);
  } catch (error) {
    report.push(`FAILED ${run.name}: ${error?.message ?? error}`);
  }
}
await fetch('/report', { method: 'POST', body: report.join('\n') });
