// Checks Loyd from pages in headless Chromium: one of an origin that may call,
// one of an origin that may not.
//
//     node checks.js target/release/loyd
//
// Prints what the pages report, a line for each check.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const PATIENCE = 60_000; // milliseconds for a page to report
const PAGE = '<!doctype html><meta charset="utf-8"><script type="module" src="/page.js"></script>';

/** Serve the page from a port, and so an origin, of its own. */
async function servePage() {
  const script = await readFile(fileURLToPath(new URL('bundle.js', import.meta.url)));
  let told;
  const report = new Promise((resolve) => (told = resolve));
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, 'http://page');
    if (pathname === '/') {
      response.setHeader('content-type', 'text/html').end(PAGE);
    } else if (pathname === '/page.js') {
      response.setHeader('content-type', 'text/javascript').end(script);
    } else if (pathname === '/report') {
      const parts = [];
      for await (const part of request) parts.push(part);
      response.end();
      told(Buffer.concat(parts).toString());
    } else {
      response.writeHead(404).end();
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { origin: `http://127.0.0.1:${server.address().port}`, report, server };
}

async function startLoyd(binary, origin) {
  const child = spawn(
    binary,
    ['serve', '--listen', '127.0.0.1:0', '--grpc-web', '--grpc-web-origin', origin],
    { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, RUST_LOG: 'warn' } },
  );
  for await (const line of createInterface({ input: child.stdout })) {
    const [, uri] = /^listening on (\S+)$/.exec(line) ?? [];
    if (uri) return { child, uri };
  }
  throw new Error('the server did not say where it listens');
}

/** Open a page and wait for its report. */
async function visit(url, report) {
  const profile = await mkdtemp(join(tmpdir(), 'loyd-browser-'));
  const browser = spawn(
    'chromium',
    [
      '--headless=new',
      '--no-sandbox', // it would not start as root, as in CI
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--disable-background-networking',
      '--no-first-run',
      '--remote-debugging-port=0', // it stays until it is stopped
      `--user-data-dir=${profile}`,
      url,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let said = '';
  browser.stderr.on('data', (part) => (said = (said + part).slice(-4000)));
  const ended = once(browser, 'exit');
  let timer;
  try {
    return await Promise.race([
      report,
      ended.then(() => Promise.reject(new Error(`chromium ended: ${said}`))),
      new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`no report came: ${said}`)), PATIENCE);
      }),
    ]);
  } finally {
    clearTimeout(timer);
    browser.kill('SIGKILL');
    await ended;
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

const [binary] = process.argv.slice(2);
const [allowed, foreign] = [await servePage(), await servePage()];
const loyd = await startLoyd(binary, allowed.origin);
try {
  for (const [checks, page] of Object.entries({ allowed, foreign })) {
    const query = new URLSearchParams({ server: loyd.uri, checks });
    console.log(await visit(`${page.origin}/?${query}`, page.report));
  }
} finally {
  loyd.child.kill('SIGTERM');
  const [code] = await once(loyd.child, 'exit');
  console.log(code === 0 ? 'ok sigterm_ends_it_well' : `FAILED sigterm_ends_it_well: code ${code}`);
  allowed.server.close();
  foreign.server.close();
  allowed.server.closeAllConnections();
  foreign.server.closeAllConnections();
}
