// A client of Loyd: connecting, single calls, and what a failed call carries.

import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';
import { protoPath as healthProto } from 'grpc-health-check';

const LOADING = {
  longs: String, // an id may be larger than Number.MAX_SAFE_INTEGER
  enums: String, // 'OUTCOME_SOLVED', not 1
  defaults: true, // a field that was not sent reads as 0, '' or []
  oneofs: true, // `results` names the field of the oneof that is set
};

const statusDetails = protoLoader.loadSync(
  fileURLToPath(new URL('status_details.proto', import.meta.url)),
  LOADING,
);

/** Connect to a server; `protoDirectory` is the one that holds loyd/v1. */
export function connect(address, protoDirectory) {
  const definitions = protoLoader.loadSync('loyd/v1/solver.proto', {
    ...LOADING,
    includeDirs: [protoDirectory],
  });
  const SolverService = grpc.makeGenericClientConstructor(
    withSizes(definitions['loyd.v1.SolverService']),
    'SolverService',
  );
  const { Health } = grpc.loadPackageDefinition(
    protoLoader.loadSync(healthProto, LOADING),
  ).grpc.health.v1;

  const credentials = grpc.credentials.createInsecure();
  const solver = new SolverService(address, credentials);
  const health = new Health(address, credentials);
  return {
    solve: (request) => call(solver, 'Solve', request),
    openBatch: (seconds) => solver.SolveBatch({ deadline: secondsFromNow(seconds) }),
    batchRequestSize: (request) =>
      definitions['loyd.v1.SolverService'].SolveBatch.requestSerialize(request).length,
    checkHealth: (service) => call(health, 'Check', { service }),
    close: () => {
      solver.close();
      health.close();
    },
  };
}

// Batch responses with the size they had on the wire, so that it can be
// checked. A program that only wants answers needs none of this.
function withSizes(service) {
  const { responseDeserialize } = service.SolveBatch;
  const deserializeWithSize = (bytes) => ({
    ...responseDeserialize(bytes),
    wireSize: bytes.length,
  });
  return {
    ...service,
    SolveBatch: { ...service.SolveBatch, responseDeserialize: deserializeWithSize },
  };
}

function call(client, method, request) {
  const deadline = secondsFromNow(20);
  return promisify(client[method]).call(client, request, { deadline });
}

function secondsFromNow(seconds) {
  return new Date(Date.now() + seconds * 1000);
}

/** The messages that a failed call carries, by name: BadRequest, ErrorInfo. */
export function detailsOf(error) {
  const [trailer] = error.metadata.get('grpc-status-details-bin');
  if (trailer === undefined) {
    throw new Error('the status has no details');
  }
  const status = statusDetails['google.rpc.Status'].deserialize(trailer);
  const details = {};
  for (const { type_url: typeUrl, value } of status.details) {
    const name = typeUrl.split('/').pop();
    const type = statusDetails[name];
    if (type !== undefined) {
      details[name.replace('google.rpc.', '')] = type.deserialize(value);
    }
  }
  return details;
}
