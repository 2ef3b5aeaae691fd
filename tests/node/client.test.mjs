// What the browser client does, with a `fetch` that plays what it is told.

import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import { createServer } from "node:http";
import { test } from "node:test";

import { Decoder, listen, stream, StreamError } from "../../flaskstream/static/client.js";

globalThis.crypto ??= webcrypto; // Node 18 has it under another name

const URL = "http://127.0.0.1/stream/chat";
const PLACE = "/stream/streams/0123456789abcdef";
const EPOCH = "0123456789abcdef0123";
const SOON = { minDelay: 1, maxDelay: 4 };
const QUESTION = { body: { q: "hello" }, ...SOON };
const DONE = { event: "done", data: '{"events":2}' };

const IN_TIME = { timeout: 20_000 }; // for what would otherwise wait for ever

const utf8 = new TextEncoder();
const until = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function wire({ event, data = "{}", n, id = n && `${EPOCH}-${n}`, retry }) {
  const fields = { retry, id, event };
  const lines = Object.entries(fields).map(([name, value]) => (value === undefined ? "" : `${name}: ${value}\n`));
  return `${lines.join("")}data: ${data}\n\n`;
}

const word = (n, data = JSON.stringify({ t: `w${n} ` })) => ({ n, data });

// A response that sends these events, texts and bytes, each after so many milliseconds, then ends as it is told.
function answer(items, { end = "close", status = 200, every = 0, ...headers } = {}) {
  return (url, { signal }) => {
    let source;
    const body = new ReadableStream({
      async start(controller) {
        source = controller;
        for (const item of items) {
          if (every) await until(every);
          if (signal?.aborted) return;
          const piece = typeof item === "string" ? item : item instanceof Uint8Array ? item : wire(item);
          controller.enqueue(typeof piece === "string" ? utf8.encode(piece) : piece);
        }
        if (end === "close") controller.close();
        if (end === "break") setTimeout(() => controller.error(new TypeError("network error")), 5);
      },
    });
    signal?.addEventListener("abort", () => {
      try {
        source.error(signal.reason);
      } catch {} // it has ended
    });
    return new Response(body, { status, headers: { "Content-Type": "text/event-stream", ...headers } });
  };
}

const kept = (items, more) => answer(items, { end: "break", Location: PLACE, ...more });
const refused = () => {
  throw new TypeError("fetch failed");
};
const silent = (url, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
const page = (status, text = "", headers = {}) => () => new Response(status === 204 ? null : text, { status, headers });
const failed = (status, code, headers) =>
  page(status, JSON.stringify({ error: { code, message: "No.", id: "7" } }), headers);

// A `fetch` that plays one thing after the other, and notes what it was asked.
function plays(...answers) {
  const asked = [];
  const fetch = async (url, init) => {
    const { method, body, keepalive } = init;
    asked.push({ method, path: String(url).replace("http://127.0.0.1", ""), headers: init.headers, body, keepalive });
    const next = answers.shift();
    assert.ok(next, `expected no more requests, got ${method} ${url}`);
    return next(url, init);
  };
  return { fetch, asked, left: answers };
}

async function read(events, heard = []) {
  for await (const event of events) heard.push(event);
  return heard;
}

const textOf = (heard) =>
  heard.map(({ event, data }) => (event === "message" ? JSON.parse(data).t : `[${event}]`)).join("");

async function fails(events, code) {
  const heard = [];
  const error = await read(events, heard).then(
    () => assert.fail(`expected ${code}, got an end after ${textOf(heard)}`),
    (error) => error,
  );
  assert.ok(error instanceof StreamError, String(error.stack));
  assert.equal(error.code, code);
  return { error, heard };
}

// Reading

test("an answer is read to its end", async () => {
  const server = plays(answer([word(1), word(2), DONE]));
  const events = stream(URL, { ...QUESTION, ...server });
  assert.equal(textOf(await read(events)), "w1 w2 [done]");
  assert.equal(events.state, "done");
});

test("a character that is cut anywhere stays whole, and so does a line end", async () => {
  for (const end of ["\n", "\r", "\r\n"]) {
    const bytes = utf8.encode(`\ufeffdata: {"t":"😀 é"}${end}${end}event: done${end}data: {}${end}${end}`);
    for (let place = 0; place <= bytes.length; place++) {
      const server = plays(answer([bytes.slice(0, place), bytes.slice(place)]));
      assert.equal(textOf(await read(stream(URL, server))), "😀 é[done]", `${JSON.stringify(end)} at ${place}`);
    }
  }
});

test("an end without its blank line is no end, and half a character is nothing", async () => {
  const cut = utf8.encode("data: 😀").slice(0, -2);
  for (const last of ["event: done\ndata: {}\n", "data: {}", cut]) {
    const server = plays(answer([word(1), last]));
    const { heard } = await fails(stream(URL, server), "truncated");
    assert.equal(textOf(heard), "w1 ");
  }
});

test("an event that is too large is an error, and not a full memory", () => {
  const most = 2 ** 24;
  const long = `data: ${"x".repeat(1000)}\n`;
  const lines = long.repeat(most / 1000 + 1);
  const tooLarge = { code: "event_too_large" };
  assert.throws(() => [...new Decoder().feed(utf8.encode("data: " + "x".repeat(most)))], tooLarge);
  assert.throws(() => [...new Decoder().feed(utf8.encode(lines))], tooLarge);
  assert.equal([...new Decoder().feed(utf8.encode(lines.replaceAll("\n", "\n\n")))].length, Math.floor(most / 1000 + 1));
});

test("what is no stream of events is an error", async () => {
  const login = page(200, "<h1>Log in</h1>", { "Content-Type": "text/html" });
  const { error } = await fails(stream(URL, { ...QUESTION, ...plays(login) }), "not_a_stream");
  assert.equal(error.status, 200);
});

test("another end can be named", async () => {
  const server = plays(answer([{ data: "a" }, { data: "[DONE]" }, { data: "never" }]));
  const heard = await read(stream(URL, { ...server, isEnd: ({ data }) => data === "[DONE]" }));
  assert.deepEqual(heard.map(({ data }) => data), ["a", "[DONE]"]);
});

test("a loop that is left closes its connection, and asks for nothing more", async () => {
  let signal;
  const endless = (url, init) => {
    signal = init.signal;
    return kept([word(1), word(2)], { end: "open" })(url, init);
  };
  const events = stream(URL, { ...QUESTION, ...plays(endless) });
  for await (const event of events) {
    assert.equal(event.lastEventId, `${EPOCH}-1`);
    break;
  }
  assert.ok(signal.aborted);
  assert.equal(events.state, "closed");
  assert.equal(events.lastEventId, `${EPOCH}-1`);
});

// Asking

test("a question goes as JSON, with its token and a key", async () => {
  const server = plays(answer([DONE]));
  await read(stream(URL, { ...QUESTION, ...server, csrfToken: "t", headers: { "X-Own": "1" } }));
  const [{ method, headers, body }] = server.asked;
  assert.deepEqual([method, body], ["POST", '{"q":"hello"}']);
  assert.equal(headers.get("Content-Type"), "application/json");
  assert.equal(headers.get("Accept"), "text/event-stream");
  assert.equal(headers.get("X-CSRFToken"), "t");
  assert.equal(headers.get("X-Own"), "1");
  assert.match(headers.get("Idempotency-Key"), /^[\d-]{20,}$/);
  assert.equal(headers.get("Last-Event-ID"), null);
});

test("a form goes as it is, and a GET carries no token", async () => {
  const form = new URLSearchParams({ q: "hello" });
  const server = plays(answer([DONE]), answer([DONE]));
  await read(stream(URL, { ...server, body: form }));
  await read(stream(`${URL}?q=hello`, { ...server, csrfToken: "t" }));
  const [posted, got] = server.asked;
  assert.deepEqual([posted.method, posted.body, posted.headers.get("Content-Type")], ["POST", form, null]);
  assert.deepEqual([got.method, got.headers.get("X-CSRFToken")], ["GET", null]);
});

test("a page that was loaded anew comes back with what it has", async () => {
  const server = plays(kept([word(2), DONE]));
  await read(stream(`http://127.0.0.1${PLACE}`, { ...server, lastEventId: `${EPOCH}-1é` }));
  const [{ method, headers }] = server.asked;
  assert.equal(method, "GET");
  assert.equal(Buffer.from(headers.get("Last-Event-ID"), "latin1").toString("utf8"), `${EPOCH}-1é`);
});

// Coming back

test("a lost connection is come back to, and the question is asked once", async () => {
  const server = plays(
    kept([word(1)]),
    kept([word(1), word(2)]), // a double, which is dropped
    refused,
    kept([]),
    kept([word(3), ": hb\n", { event: "ping" }, { ...DONE, n: 4 }], { end: "close" }),
  );
  const retries = [];
  const events = stream(URL, { ...QUESTION, ...server, csrfToken: "t", onretry: (retry) => retries.push(retry) });
  assert.equal(textOf(await read(events)), "w1 w2 w3 [ping][done]");
  const [first, ...more] = server.asked;
  assert.equal(first.method, "POST");
  const came = more.map(({ method, path, headers }) => [method, path, headers.get("Last-Event-ID")]);
  assert.deepEqual(came, [1, 2, 2, 2].map((n) => ["GET", PLACE, `${EPOCH}-${n}`]));
  assert.ok(more.every(({ headers, body }) => !headers.has("Idempotency-Key") && !headers.has("X-CSRFToken") && !body));
  assert.deepEqual(retries.map(({ attempt }) => attempt), [1, 1, 2, 3]);
  assert.deepEqual(retries.map(({ error }) => error.code), ["truncated", "truncated", "unreachable", "truncated"]);
});

test("an end of the bytes without an end of the answer is a lost connection too", async () => {
  const server = plays(kept([word(1)], { end: "close" }), kept([DONE]));
  assert.equal(textOf(await read(stream(URL, { ...QUESTION, ...server }))), "w1 [done]");
});

test("without a Location what is lost is lost, and nothing is asked twice", async () => {
  for (const items of [[word(1)], []]) {
    const server = plays(answer(items, { end: "break" }));
    const events = stream(URL, { ...QUESTION, ...server });
    await fails(events, "truncated");
    assert.equal(server.asked.length, 1);
    assert.equal(events.state, "failed");
  }
});

test("a question that nothing at all came of is asked again, with its key", async () => {
  const server = plays(refused, refused, kept([DONE]));
  await read(stream(URL, { ...QUESTION, ...server }));
  const keys = new Set(server.asked.map(({ headers }) => headers.get("Idempotency-Key")));
  assert.deepEqual([server.asked.length, keys.size], [3, 1]);
});

test("two questions have two keys", async () => {
  const server = plays(answer([DONE]), answer([DONE]));
  for (const asked of [1, 2]) await read(stream(URL, { ...QUESTION, ...server }), [asked]);
  const [one, two] = server.asked.map(({ headers }) => headers.get("Idempotency-Key"));
  assert.notEqual(one, two);
});

test("a key of the page's own is kept, and without one there is one attempt", async () => {
  const own = plays(answer([DONE]));
  await read(stream(URL, { ...QUESTION, ...own, idempotencyKey: "mine" }));
  assert.equal(own.asked[0].headers.get("Idempotency-Key"), "mine");
  const none = plays(refused);
  await fails(stream(URL, { ...QUESTION, ...none, idempotencyKey: false }), "unreachable");
  assert.equal(none.asked[0].headers.get("Idempotency-Key"), null);
});

test("nobody comes back for ever", async () => {
  const server = plays(kept([word(1)]), ...Array(3).fill(refused));
  await fails(stream(URL, { ...QUESTION, ...server, maxRetries: 3 }), "unreachable");
  assert.equal(server.asked.length, 4);
});

test("a restart is come back from after the time that goes with it", async () => {
  const server = plays(kept([word(1), { event: "restart", retry: 40 }], { end: "close" }), kept([DONE]));
  const retries = [];
  const heard = await read(stream(URL, { ...QUESTION, ...server, onretry: (retry) => retries.push(retry) }));
  assert.equal(textOf(heard), "w1 [done]");
  assert.equal(retries[0].error.code, "restart");
  assert.ok(retries[0].delay >= 40 && retries[0].delay <= 60, String(retries[0].delay));
});

test("a restart before the first event does not ask the question anew", async () => {
  const server = plays(kept([{ event: "restart", id: `${EPOCH}-0`, retry: 1 }]), kept([word(1), DONE]));
  assert.equal(textOf(await read(stream(URL, { ...QUESTION, ...server }))), "w1 [done]");
  assert.equal(server.asked[1].headers.get("Last-Event-ID"), `${EPOCH}-0`);
});

test("a reset reaches the page, which then gets everything once more", async () => {
  const other = (n) => ({ ...word(n), id: `${"f".repeat(20)}-${n}` });
  for (const again of [word, other]) {
    const server = plays(kept([word(1), word(2)]), kept([{ event: "reset" }, again(1), again(2), DONE]));
    const heard = await read(stream(URL, { ...QUESTION, ...server }));
    assert.equal(textOf(heard), "w1 w2 [reset]w1 w2 [done]");
  }
});

test("a reset after which there is nothing is an error, and the page keeps what it has", async () => {
  const gone = { event: "reset", id: `done-${EPOCH}`, data: '{"reason":"evicted"}' };
  const server = plays(kept([word(1)]), answer([gone]));
  const { error, heard } = await fails(stream(URL, { ...QUESTION, ...server }), "evicted");
  assert.equal(textOf(heard), "w1 ");
  assert.match(error.message, /^[A-Z][a-z ]+\.$/);
});

test("ids that are not ours are never doubles", async () => {
  const server = plays(answer([{ id: "chat-5", data: '{"t":"a"}' }, { id: "chat-5", data: '{"t":"b"}' }, DONE]));
  assert.equal(textOf(await read(stream(URL, server))), "ab[done]");
});

test("the Location is one of the server that was asked", async () => {
  for (const said of [PLACE, `http://10.0.0.7:8000${PLACE}`, `//elsewhere.example${PLACE}`]) {
    const server = plays(answer([word(1)], { Location: said }), kept([DONE]));
    const events = stream(URL, { ...QUESTION, ...server });
    await read(events);
    assert.equal(events.location, `http://127.0.0.1${PLACE}`);
  }
});

test("nor is it another one where its path looks like a server", async () => {
  const server = plays(answer([word(1)], { Location: "//elsewhere.example//evil.example/stolen" }), kept([DONE]));
  const events = stream(URL, { ...QUESTION, ...server });
  await read(events);
  assert.equal(new globalThis.URL(events.location).host, "127.0.0.1");
});

// Ends

test("stopped is an end, and an error of the server's is an error", async () => {
  const stopped = stream(URL, { ...QUESTION, ...plays(kept([word(1), { event: "stopped", n: 2 }])) });
  assert.equal(textOf(await read(stopped)), "w1 [stopped]");
  assert.equal(stopped.state, "stopped");
  const data = '{"code":"producer_lost","message":"The server lost the answer.","id":"7"}';
  const server = plays(kept([word(1), { event: "error", n: 2, data }]));
  const { error, heard } = await fails(stream(URL, { ...QUESTION, ...server }), "producer_lost");
  assert.deepEqual([error.message, error.id, textOf(heard)], ["The server lost the answer.", "7", "w1 "]);
  await fails(stream(URL, plays(answer([{ event: "error", data: "plain" }]))), "error");
});

test("204 is an end, also for who comes back", async () => {
  assert.deepEqual(await read(stream(URL, plays(page(204)))), []);
  const events = stream(URL, { ...QUESTION, ...plays(kept([word(1)]), page(204)) });
  assert.equal(textOf(await read(events)), "w1 ");
  assert.equal(events.state, "done");
});

test("what the client did wrong is not tried again", async () => {
  for (const status of [400, 401, 403, 404, 409, 413, 422, 429]) {
    for (const before of [[], [kept([word(1)])]]) {
      const server = plays(...before, failed(status, "no_good"));
      const { error } = await fails(stream(URL, { ...QUESTION, ...server }), "no_good");
      assert.deepEqual([error.status, error.message, error.id, server.left.length], [status, "No.", "7", 0]);
    }
  }
});

test("a page that was loaded anew comes back through a server error", async () => {
  const server = plays(failed(502, "upstream_refused"), kept([word(2), DONE]));
  const events = stream(`http://127.0.0.1${PLACE}`, { ...server, lastEventId: `${EPOCH}-1`, minDelay: 1 });
  assert.equal(textOf(await read(events)), "w2 [done]");
});

test("an error status of the upstream is final for a question, and tried again by who comes back", async () => {
  for (const status of [500, 502, 503, 504]) {
    await fails(stream(URL, { ...QUESTION, ...plays(failed(status, "upstream_refused")) }), "upstream_refused");
    const server = plays(kept([word(1)]), page(status, "<h1>Bad gateway</h1>"), kept([DONE]));
    assert.equal(textOf(await read(stream(URL, { ...QUESTION, ...server }))), "w1 [done]");
  }
});

test("Retry-After is waited for, as a number and as a date", async () => {
  const seconds = (number) => () => String(number);
  const date = (milliseconds) => () => new Date(Date.now() + milliseconds).toUTCString(); // of whole seconds
  for (const [status, says, least] of [[503, seconds(1), 1000], [429, seconds(0), 0], [503, date(2000), 500], [429, date(-1e6), 0]]) {
    const said = says();
    const server = plays(failed(status, "too_many_streams", { "Retry-After": said }), answer([DONE]));
    const retries = [];
    const began = Date.now();
    await read(stream(URL, { ...QUESTION, ...server, onretry: (retry) => retries.push(retry) }));
    assert.ok(retries[0].delay >= least && retries[0].delay <= 3000, `${said}: ${retries[0].delay}`);
    assert.ok(Date.now() - began >= retries[0].delay - 2);
    assert.equal(server.asked.length, 2);
  }
});

test("Retry-After is not waited for for ever", async () => {
  const busy = failed(503, "too_many_streams", { "Retry-After": "0" });
  const server = plays(...Array(3).fill(busy));
  await fails(stream(URL, { ...QUESTION, ...server, maxRetries: 2 }), "too_many_streams");
  const tomorrow = plays(failed(429, "quota", { "Retry-After": "86400" }));
  const { error } = await fails(stream(URL, { ...QUESTION, ...tomorrow }), "quota");
  assert.equal(error.retryAfter, 86_400_000);
});

// Waiting

// The waits before so many attempts. Nobody waits for them: timers are `HURRY` times as fast.
const HURRY = 50;

async function hurried(run) {
  const { setTimeout } = globalThis;
  globalThis.setTimeout = (run, ms, ...more) => setTimeout(run, ms / HURRY, ...more);
  try {
    await run();
  } finally {
    globalThis.setTimeout = setTimeout;
  }
}

async function delays(answers, options = {}) {
  const found = [];
  const server = plays(...answers);
  const onretry = ({ delay }) => found.push(delay);
  await hurried(() => read(stream(URL, { ...server, body: {}, maxRetries: 4, ...options, onretry })).catch(() => {}));
  return found;
}

function areAbout(found, ...least) {
  assert.equal(found.length, least.length);
  least.forEach((least, n) => assert.ok(found[n] >= least && found[n] <= least * 1.5, `${n} of ${found}`));
}

test("each wait is twice as long, up to a limit, and half as much again at most by chance", async () => {
  const server = [kept([word(1)]), ...Array(4).fill(refused)];
  areAbout(await delays(server, { minDelay: 400, maxDelay: 1000 }), 400, 800, 1000, 1000);
});

test("a server may tell 0 once: whoever loses it again and again does not come back without a pause", async () => {
  const zero = (n) => kept([{ ...word(n), retry: 0 }]);
  areAbout(await delays([zero(1), zero(2), zero(3), kept([DONE])]), 0, 250, 250);
  areAbout(await delays(Array(4).fill(refused), { minDelay: 0, maxRetries: 3 }), 0, 500, 1000);
});

test("a reset is no progress: one after the other is not come back to for ever", async () => {
  const resets = Array(4).fill(kept([{ event: "reset", retry: 0 }], { end: "close" }));
  areAbout(await delays(resets, { maxRetries: 3 }), 0, 500, 1000);
});

test("a server that restarts again is come back to after the time that it tells, and not after longer and longer ones", async () => {
  const restart = kept([{ event: "restart", retry: 300 }], { end: "close" });
  areAbout(await delays([restart, restart, restart, restart, kept([DONE])]), 300, 300, 300, 300);
});

async function firstDelay(first, maxDelay) {
  const found = [];
  const events = stream(URL, { ...plays(kept([first])), body: {}, minDelay: 1, maxDelay, onretry: ({ delay }) => (found.push(delay), events.close()) });
  await read(events);
  return found[0];
}

test("the server's time to come back counts, also where it is longer than the limit", async () => {
  const told = (retry) => ({ ...word(1), retry });
  for (const [retry, least] of [[100, 100], [5000, 5000], [0, 0]]) {
    const delay = await firstDelay(told(retry), 1000);
    assert.ok(delay >= least && delay <= least * 1.5, `${retry}: ${delay}`);
  }
  const longest = await firstDelay(told("9".repeat(18)), 1000);
  assert.equal(longest, 2 ** 31 - 1); // a longer timer would fire at once
});

test("two hundred clients that lose their server at once come back spread over half of the wait", async () => {
  const found = await Promise.all(Array.from({ length: 200 }, () => firstDelay({ ...word(1), retry: 3000 }, 30_000)));
  const tenths = new Set(found.map((delay) => Math.floor((delay - 3000) / 150)));
  assert.equal(tenths.size, 10);
  assert.ok(Math.min(...found) >= 3000 && Math.max(...found) <= 4500);
});

test("a connection that is silent for too long is dead, and any byte is life", async () => {
  const idle = 400;
  const beats = Array(12).fill(": hb\n");
  const server = plays(
    kept([word(1), ...beats, word(2)], { every: idle / 4, end: "open" }),
    kept([word(3), DONE]),
  );
  const began = Date.now();
  const heard = await read(stream(URL, { ...QUESTION, ...server, idle }));
  assert.equal(textOf(heard), "w1 w2 w3 [done]");
  assert.ok(Date.now() - began > (idle / 4) * 14 + idle * 0.9);
  const lostForGood = plays(answer([word(1)], { end: "open" }));
  await fails(stream(URL, { ...QUESTION, ...lostForGood, idle: 40 }), "truncated");
});

test("a reader that takes its time is no silence", async () => {
  const server = plays(kept([word(1), word(2)], { end: "open" }), kept([DONE]));
  const heard = [];
  for await (const event of stream(URL, { ...QUESTION, ...server, idle: 100 })) {
    heard.push(event);
    if (heard.length === 1) await until(400);
    if (heard.length === 2) assert.equal(server.asked.length, 1);
  }
  assert.equal(textOf(heard), "w1 w2 [done]");
});

test("a first answer may take its time, and is not asked for twice", async () => {
  const slow = async (url, init) => {
    await until(300);
    return answer([DONE])(url, init);
  };
  const server = plays(slow);
  await read(stream(URL, { ...QUESTION, ...server, idle: 40 }));
  assert.equal(server.asked.length, 1);
});

test("a connection that does not open gets a hint", async () => {
  const slow = async (url, init) => {
    await until(120);
    return answer([DONE])(url, init);
  };
  const hints = [];
  const onhint = (hint) => hints.push(hint);
  await read(stream(URL, { ...QUESTION, ...plays(slow), hintAfter: 30, onhint }));
  assert.match(hints.join(), /six connections/);
  await read(stream(URL, { ...QUESTION, ...plays(answer([DONE])), hintAfter: 30, onhint }));
  await until(60);
  assert.equal(hints.length, 1);
});

test("after its last event a connection is read to its end, so that the browser can use it again", async () => {
  let signal;
  const source = answer([DONE, ": bye\n"], { every: 20 });
  const server = plays((url, init) => ((signal = init.signal), source(url, init)));
  await read(stream(URL, { ...QUESTION, ...server }));
  await until(60);
  assert.equal(signal.aborted, false);
});

test("what is left of a piece is not told to a page that has closed", async () => {
  const events = stream(URL, { ...QUESTION, ...plays(kept([wire(word(1)) + wire(word(2)) + wire(word(3))])) });
  const heard = [];
  for await (const event of events) {
    heard.push(event);
    if (heard.length === 2) events.close();
  }
  assert.equal(textOf(heard), "w1 w2 ");
});

test("what the page asks wrongly is an error of its own, and nothing is tried again", async () => {
  const server = plays();
  assert.throws(() => stream("http://", server), { name: "TypeError" });
  const { error } = await fails(stream(URL, { ...server, headers: { "X-Own": "a\nb" } }), "usage");
  assert.ok(error.cause instanceof TypeError && error.message.includes("TypeError"));
  const body = {};
  body.self = body;
  await fails(stream(URL, { ...server, body }), "usage");
});

test("a stream is read once: a second loop, beside the first or behind it, is an error and no silent nothing", async () => {
  const events = stream(URL, { ...QUESTION, ...plays(kept([word(1), DONE])) });
  const reading = read(events);
  await fails(events, "already_read");
  assert.equal(textOf(await reading), "w1 [done]");
  await fails(events, "already_read");
});

// Stopping

test("stop asks the server, with the token, and the page sees the end", async () => {
  let stopped = false;
  const running = (url, { signal }) => {
    const source = kept([word(1)], { end: "open" })(url, { signal });
    return source;
  };
  const server = plays(running, () => ((stopped = true), new Response(null, { status: 204 })), kept([{ event: "stopped", n: 2 }]));
  const events = stream(URL, { ...QUESTION, ...server, csrfToken: "t", headers: { "X-Own": "1" }, idle: 100 });
  const heard = [];
  for await (const event of events) {
    heard.push(event);
    if (!stopped) await events.stop();
  }
  assert.equal(textOf(heard), "w1 [stopped]");
  const { method, path, headers, keepalive } = server.asked[1];
  assert.deepEqual([method, path, keepalive], ["DELETE", PLACE, true]);
  assert.deepEqual([headers.get("X-CSRFToken"), headers.get("X-Own")], ["t", "1"]);
  await events.stop(); // nothing is asked
});

test("stop before there is an answer waits for its Location", async () => {
  const slow = async (url, init) => {
    await until(50);
    return kept([word(1), { event: "stopped", n: 2 }], { every: 30, end: "open" })(url, init);
  };
  const server = plays(slow, page(204));
  const events = stream(URL, { ...QUESTION, ...server });
  const reading = read(events);
  await until(10);
  await events.stop();
  assert.equal(server.asked[1].method, "DELETE");
  assert.equal(textOf(await reading), "w1 [stopped]");
});

test("stop takes effect though the server accepts and says nothing", IN_TIME, async () => {
  const events = stream(URL, { ...QUESTION, ...plays(silent) });
  await hurried(async () => {
    const reading = read(events);
    await events.stop();
    assert.deepEqual(await reading, []);
  });
  assert.equal(events.state, "stopped");
});

test("stop while waiting comes back at once for the end", async () => {
  const server = plays(kept([{ ...word(1), retry: 60_000 }]), page(204), kept([{ event: "stopped", n: 2 }]));
  const events = stream(URL, { ...QUESTION, ...server, onretry: () => events.stop() });
  assert.equal(textOf(await read(events)), "w1 [stopped]");
});

test("without a Location stop closes the connection, which is the end", async () => {
  let signal;
  const server = plays((url, init) => ((signal = init.signal), answer([word(1)], { end: "open" })(url, init)));
  const events = stream(URL, { ...QUESTION, ...server });
  const reading = read(events);
  await until(20);
  await events.stop();
  assert.equal(textOf(await reading), "w1 ");
  assert.ok(signal.aborted);
  assert.equal(events.state, "stopped");
  const busy = plays(failed(503, "busy", { "Retry-After": "60" }));
  const waiting = stream(URL, { ...QUESTION, ...busy, onretry: () => waiting.stop() });
  assert.deepEqual(await read(waiting), []);
});

test("a stop that fails says so, ends the reading, and can be tried again", async () => {
  for (const [fails, code] of [[failed(403, "forbidden"), "forbidden"], [refused, "unreachable"]]) {
    const server = plays(kept([word(1), word(2)], { every: 20 }), fails, page(204));
    const events = stream(URL, { ...QUESTION, ...server, onretry: () => assert.fail("expected no attempt") });
    const heard = [];
    for await (const event of events) {
      heard.push(event);
      await assert.rejects(events.stop(), { name: "StreamError", code });
    }
    assert.deepEqual([textOf(heard), events.state], ["w1 ", "closed"]);
    await events.stop();
    assert.equal(server.left.length, 0);
  }
});

test("a stop that is not answered is given up", IN_TIME, async () => {
  const events = stream(URL, { ...QUESTION, ...plays(kept([word(1)], { end: "open" }), silent) });
  await hurried(async () => {
    for await (const _ of events) await assert.rejects(events.stop(), { code: "unreachable" });
  });
  assert.equal(events.state, "closed");
});

test("whoever stops four times asks once", async () => {
  const server = plays(kept([word(1), { event: "stopped", n: 2 }], { every: 30 }), page(204));
  const events = stream(URL, { ...QUESTION, ...server });
  for await (const event of events) if (event.event === "message") for (let n = 0; n < 4; n++) events.stop();
  await events.stop();
  assert.equal(server.asked.length, 2);
});

test("whoever has stopped comes back for the end once, and not again and again", async () => {
  const server = plays(kept([word(1)]), page(204), refused);
  const events = stream(URL, { ...QUESTION, ...server, onretry: () => events.stop() });
  assert.equal(textOf(await read(events)), "w1 ");
  assert.equal(events.state, "stopped");
});

test("an abort is thrown as fetch throws it, and stops nothing", async () => {
  const aborts = new AbortController();
  const server = plays(kept([word(1)], { end: "open" }));
  const events = stream(URL, { ...QUESTION, ...server, signal: aborts.signal });
  setTimeout(() => aborts.abort(), 20);
  await assert.rejects(read(events), { name: "AbortError" });
  assert.equal(events.state, "closed");
  assert.deepEqual(server.asked.map(({ method }) => method), ["POST"]);
  const before = plays();
  await assert.rejects(read(stream(URL, { ...before, signal: AbortSignal.abort() })), { name: "AbortError" });
  assert.equal(before.asked.length, 0);
});

test("an abort ends a wait", async () => {
  const aborts = new AbortController();
  const server = plays(kept([{ ...word(1), retry: 60_000 }]));
  const events = stream(URL, { ...QUESTION, ...server, signal: aborts.signal, onretry: () => aborts.abort() });
  await assert.rejects(read(events), { name: "AbortError" });
});

test("the states are told in their order", async () => {
  const states = [];
  const opened = [];
  const server = plays(kept([word(1)]), kept([DONE], { end: "close" }));
  const hooks = { onstate: (state) => states.push(state), onopen: ({ status }) => opened.push(status) };
  await read(stream(URL, { ...QUESTION, ...server, ...hooks }));
  assert.deepEqual(states, ["connecting", "open", "waiting", "connecting", "open", "done"]);
  assert.deepEqual(opened, [200, 200]);
});

// Callbacks

test("callbacks hear the events, then the end", async () => {
  const heard = await new Promise((resolve, reject) => {
    const heard = [];
    const onend = ({ state }) => resolve([...heard, state]);
    listen(URL, { ...QUESTION, ...plays(kept([word(1), DONE])), onevent: ({ event }) => heard.push(event), onend, onerror: reject });
  });
  assert.deepEqual(heard, ["message", "done", "done"]);
});

test("callbacks hear an error", async () => {
  const error = await new Promise((resolve, reject) => {
    listen(URL, { ...QUESTION, ...plays(answer([word(1)])), onerror: resolve, onend: reject });
  });
  assert.equal(error.code, "truncated");
});

test("no callback is called after close or an abort, whichever it is", async () => {
  const aborts = new AbortController();
  const names = ["onevent", "onend", "onerror", "onstate", "onopen", "onretry"];
  for (const leave of [(events) => events.close(), () => aborts.abort()]) {
    for (const after of ["connecting", "open", "waiting"]) {
      const called = [];
      const left = new Promise((resolve) => {
        const hooks = names.map((name) => [
          name,
          (told) => {
            called.push(name);
            if (told !== after) return;
            leave(events);
            called.push("left");
            setTimeout(resolve, 40);
          },
        ]);
        const options = { ...QUESTION, ...plays(kept([word(1)]), kept([word(2), DONE])), signal: aborts.signal };
        const events = listen(URL, { ...options, ...Object.fromEntries(hooks) });
      });
      await left;
      assert.equal(called.at(-1), "left", String(called));
      if (aborts.signal.aborted) return;
    }
  }
});

test("what is closed stays closed, whatever comes in the same moment", async () => {
  const late = async (url, init) => {
    events.close();
    return kept([word(1), DONE], { end: "close" })(url, {});
  };
  const events = stream(URL, { ...QUESTION, ...plays(late) });
  assert.deepEqual([await read(events), events.state], [[], "closed"]);
});

// Of a real server

/** A server whose answers are written by hand; `left` are the answers whose client has gone. */
async function served(t, answer) {
  const left = [];
  const server = createServer((request, response) => {
    response.on("close", () => response.writableFinished || left.push(request.method));
    answer(request, response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => (server.closeAllConnections?.(), server.close()));
  return { url: `http://127.0.0.1:${server.address().port}/chat`, left };
}

test("an error without an end is given up, and is what its status says", IN_TIME, async (t) => {
  const { url, left } = await served(t, (request, response) => {
    response.writeHead(500).write("<h1>");
    const more = setInterval(() => response.write("x".repeat(10_000)), 5);
    response.on("close", () => clearInterval(more));
  });
  await hurried(async () => {
    const { error } = await fails(stream(url, QUESTION), "error");
    assert.deepEqual([error.status, error.message], [500, "HTTP 500"]);
  });
  while (!left.length) await until(5);
});

test("a Location that is no place is none, and a type is one in capitals too", async (t) => {
  const odd = { "Content-Type": "Text/Event-Stream; charset=UTF-8", Location: "http://[" };
  const { url } = await served(t, (request, response) => response.writeHead(200, odd).end(wire(word(1)) + wire(DONE)));
  const events = stream(url, QUESTION);
  assert.deepEqual([textOf(await read(events)), events.location], ["w1 [done]", ""]);
});

test("an error has a code and a message, whatever comes", async (t) => {
  const said = [
    ["<h1>Bad Gateway</h1>", "HTTP 502"],
    ["", "HTTP 502"],
    ["null", "HTTP 502"],
    ['{"error":{"code":502,"message":{"a":1}}}', "HTTP 502"],
    ['{"error":"model not found"}', "model not found"],
    ['{"object":"error","code":400,"message":"Too long."}', "Too long."],
  ];
  let body;
  const { url } = await served(t, (request, response) => response.writeHead(502).end(body));
  for (const [text, message] of said) {
    body = text;
    const { error } = await fails(stream(url, QUESTION), "error");
    assert.equal(error.message, message);
  }
  const { error } = await fails(stream(URL, plays(answer([{ event: "error", data: '{"code":5,"message":null}' }]))), "error");
  assert.equal(typeof error.message, "string");
});

test("an id of any length is sent, and a fetch that throws is one that fails", async () => {
  const id = "é".repeat(300_000);
  const server = plays(kept([{ ...word(1), id }]), kept([DONE]));
  await read(stream(URL, { ...QUESTION, ...server }));
  assert.equal(server.asked[1].headers.get("Last-Event-ID").length, 600_000);
  await fails(stream(URL, { ...QUESTION, fetch: refused, maxRetries: 0 }), "unreachable");
});
