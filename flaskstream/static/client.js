/**
 * flaskstream in the browser: read a stream of events, come back to it when its connection is lost, stop it, paint it.
 *
 *     import { stream, paint } from "/stream/client.js";
 *
 *     const painter = paint(document.querySelector("output"));
 *     for await (const event of stream("/stream/chat", { body: { q: "hello" } })) painter.take(event);
 *
 * Everything here is in docs/client.md. No dependency, no build step.
 *
 * @module
 */

/**
 * One event.
 *
 * @typedef {object} StreamEvent
 * @property {string} event its name; "message" if it has none
 * @property {string} data
 * @property {string | undefined} id the one that it carries itself
 * @property {string} lastEventId the last one of the stream, as `EventSource` tells it
 */

/**
 * What a stream is doing. `waiting`: its connection is lost, and it is about to come back.
 * The last four are ends: `closed` is one of the page's own.
 *
 * @typedef {"new" | "connecting" | "open" | "waiting" | "done" | "stopped" | "failed" | "closed"} State
 */

/**
 * @typedef {object} Retry
 * @property {number} delay milliseconds until the next attempt
 * @property {number} attempt 1 for the first one since an event came
 * @property {StreamError} error what was wrong
 */

/**
 * Times are in milliseconds.
 *
 * @typedef {object} Options
 * @property {string} [method] of the first request; without one: POST if there is a body, else GET
 * @property {HeadersInit} [headers] of every request
 * @property {unknown} [body] an object or array is sent as JSON, anything else as `fetch` sends it
 * @property {string} [csrfToken] sent as `X-CSRFToken` with what is no GET: Flask-WTF looks there
 * @property {RequestCredentials} [credentials]
 * @property {AbortSignal} [signal] ends the reading with an error, as it does for `fetch`; the answer goes on
 * @property {string} [lastEventId] how far a page had come before it was loaded anew
 * @property {string | false} [idempotencyKey] of the first request; without one: a new one; `false`: none, and no
 *     second attempt at a first request
 * @property {number} [maxRetries] attempts in a row without an event; 8
 * @property {number} [minDelay] before the first of them, unless the server tells another; 1000
 * @property {number} [maxDelay] the longest, unless the server tells a longer one; 30000
 * @property {number} [idle] of silence after which a connection is taken for dead; any byte is life; 0: never; 45000
 * @property {number} [hintAfter] without an answer; 8000
 * @property {(event: StreamEvent) => boolean} [isEnd] whether an event is the end of a whole stream; without it:
 *     `done` and `stopped` are
 * @property {typeof fetch} [fetch]
 * @property {(response: Response) => void} [onopen] each connection is open
 * @property {(retry: Retry) => void} [onretry] a connection is lost
 * @property {(state: State) => void} [onstate]
 * @property {(hint: string) => void} [onhint] why there may be no answer; without it: a warning on the console
 */

/**
 * @typedef {object} Callbacks
 * @property {(event: StreamEvent) => void} [onevent]
 * @property {(stream: Stream) => void} [onend] it has ended as it should: `stream.state` is `done` or `stopped`
 * @property {(error: unknown) => void} [onerror] it has failed; without it: an unhandled rejection
 */

const OUR_ID = /^([0-9a-f]{20})-(\d{1,15})$/;
const LONGEST_TIMER = 2 ** 31 - 1; // a longer one fires at once
const LONGEST_RETRY_AFTER = 300_000;
const MOST_CHARACTERS = 2 ** 24; // of one event
const NO_ANSWER =
  "No answer yet. A browser opens six connections to one server: other tabs?";
const DRAIN = 1000; // for the last bytes of a connection, so that the browser can use it again

/**
 * @typedef {object} More
 * @property {unknown} [cause]
 * @property {string | undefined} [id]
 * @property {number} [status]
 * @property {number | undefined} [retryAfter]
 * @property {boolean} [isTransient]
 */

/** Why a stream failed: `code` is the server's, or one of those in docs/client.md. */
export class StreamError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {More} [more]
   */
  constructor(code, message, more = {}) {
    super(message, { cause: more.cause });
    this.name = "StreamError";
    this.code = code;
    /** Under which the server's log says more. */
    this.id = more.id;
    /** Of the HTTP response. */
    this.status = more.status;
    /** Milliseconds after which the server wants to be asked again. */
    this.retryAfter = more.retryAfter;
    /** Another attempt may help. */
    this.isTransient = more.isTransient ?? false;
  }
}

/**
 * Bytes in, events out, to the letter of the standard:
 * https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
 */
export class Decoder {
  #utf8 = new TextDecoder(); // one for the whole stream: a character may be cut anywhere
  #line = "";
  #endsWithCR = false;
  /** @type {string[]} */
  #data = [];
  #held = 0;
  #name = "";
  /** @type {string | undefined} */
  #id;

  /** @param {{ lastEventId?: string, retry?: number | undefined, most?: number }} [start] the connection before */
  constructor({ lastEventId = "", retry, most = MOST_CHARACTERS } = {}) {
    this.lastEventId = lastEventId;
    /** The time to come back that the server told, in milliseconds. */
    this.retry = retry;
    this.most = most;
  }

  /**
   * @param {Uint8Array} bytes
   * @returns {Generator<StreamEvent, void>}
   */
  *feed(bytes) {
    let text = this.#utf8.decode(bytes, { stream: true });
    if (!text) return;
    const isRestOfCRLF = this.#endsWithCR && text[0] === "\n";
    this.#endsWithCR = text.endsWith("\r");
    if (isRestOfCRLF) text = text.slice(1);
    const lines = text.split(/\r\n|\r|\n/);
    lines[0] = this.#line + lines[0];
    this.#line = lines.pop() ?? "";
    for (const line of lines) {
      if (line) this.#field(line);
      else yield* this.#dispatch();
    }
    if (this.#held + this.#line.length > this.most)
      throw new StreamError("event_too_large", "The server sent an event that is too large.");
  }

  /** The stream has ended: what is unfinished is no event. */
  end() {
    this.#utf8.decode();
  }

  /** @param {string} line */
  #field(line) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon); // "" of a comment
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (name === "data") {
      this.#data.push(value);
      this.#held += value.length + 1;
    } else if (name === "event") this.#name = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "retry" && /^\d{1,18}$/.test(value)) this.retry = Number(value);
  }

  *#dispatch() {
    const [data, id] = [this.#data, this.#id];
    const event = this.#name || "message";
    this.lastEventId = id ?? this.lastEventId;
    this.#data = [];
    this.#name = "";
    this.#id = undefined;
    this.#held = 0;
    if (data.length) yield { event, data: data.join("\n"), id, lastEventId: this.lastEventId };
  }
}

/** A stream that is read by `for await`, once. */
class Stream {
  /** Where it is found again; "": the server keeps nothing, and what is lost is lost. */
  location = "";
  /** @type {State} */
  state = "new";
  #url;
  #options;
  #key;
  #events;
  #decoder;
  #epoch = "";
  #number = 0;
  #connection = new AbortController();
  /** @type {Promise<unknown> | undefined} */
  #asking;
  #wake = () => {};
  #mayHurry = false;

  /**
   * @param {string | URL} url
   * @param {Options} options
   */
  constructor(url, options) {
    this.#url = new URL(url, globalThis.document?.baseURI ?? globalThis.location?.href).href;
    this.#options = options;
    if (options.lastEventId) this.location = this.#url; // it comes back
    // Not `randomUUID`, which a page without TLS does not have.
    this.#key = options.idempotencyKey ?? crypto.getRandomValues(new Uint32Array(4)).join("-");
    this.#decoder = new Decoder(options);
    this.#events = this.#run();
  }

  /** Of the last event. With `location` all that a page needs to come back after it was loaded anew. */
  get lastEventId() {
    return this.#decoder.lastEventId;
  }

  [Symbol.asyncIterator]() {
    return this.#events;
  }

  /** End the answer, wherever it is produced. Its reader gets `event: stopped`. Leaving the page does not do this. */
  async stop() {
    if (!this.location) await this.#asking; // before it is answered nobody knows where it is
    if (this.#isWhole()) return;
    if (!this.location) return this.#close("stopped"); // a server that keeps nothing ends it with its connection
    const response = await this.#fetch(this.location, "DELETE", { keepalive: true }).catch(lost("unreachable"));
    if (!response.ok) throw await refusal(response, false);
    this.#wake();
  }

  /** Read no further. A server that keeps answers goes on with this one. */
  close() {
    this.#close("closed");
  }

  /** @param {State} state */
  #close(state) {
    if (this.#isOver()) return;
    this.#become(state);
    this.#connection.abort();
    this.#wake();
  }

  /** @param {State} state */
  #become(state) {
    if (state === this.state) return;
    this.state = state;
    tell(this.#options.onstate, state);
  }

  /** @returns {AsyncGenerator<StreamEvent, void>} */
  async *#run() {
    const { signal, maxRetries = 8 } = this.#options;
    const abort = () => this.close();
    const hooks = new AbortController();
    signal?.addEventListener("abort", abort, hooks);
    for (const name of ["pagehide", "pageshow", "online"])
      globalThis.addEventListener?.(name, (event) => this.#pageChanged(event), hooks); // Node has none
    if (signal?.aborted) abort();
    let attempt = 0;
    try {
      while (!this.#isOver()) {
        try {
          for await (const event of this.#connected()) {
            attempt = 0;
            yield event;
          }
        } catch (error) {
          if (this.#isOver()) break;
          if (!(error instanceof StreamError) || !error.isTransient || ++attempt > maxRetries) throw error;
          await this.#pause(attempt, error);
        }
      }
      if (signal?.aborted && this.state === "closed") throw signal.reason;
    } catch (error) {
      this.#close("failed");
      throw error;
    } finally {
      hooks.abort();
      this.#close("closed"); // whoever leaves the loop reads no further
    }
  }

  #isOver() {
    return this.#isWhole() || this.state === "failed" || this.state === "closed";
  }

  #isWhole() {
    return this.state === "done" || this.state === "stopped";
  }

  /**
   * The events of one connection, up to its end.
   *
   * @returns {AsyncGenerator<StreamEvent, void>}
   */
  async *#connected() {
    const { idle = 45_000, isEnd = isOurEnd } = this.#options;
    const connection = (this.#connection = new AbortController());
    const pulse = watch(idle, () => connection.abort());
    /** @type {ReadableStreamDefaultReader<Uint8Array> | undefined} */
    let reader;
    try {
      pulse.isAwaited = Boolean(this.location); // a first answer may take its time, and must not be asked for twice
      const asking = this.#ask(connection.signal);
      this.#asking = asking.catch(() => {});
      reader = await asking;
      if (!reader) return this.#become("done");
      const decoder = (this.#decoder = new Decoder(this.#decoder));
      for (;;) {
        pulse.quiet = 0;
        pulse.isAwaited = true;
        const { done, value } = await reader.read().catch(lost("truncated", this.location));
        pulse.isAwaited = false;
        if (done) break;
        for (const event of decoder.feed(value)) {
          if (!this.#isNew(event)) continue;
          if (isEnd(event)) this.#become(event.event === "stopped" ? "stopped" : "done");
          yield event;
          if (this.#isOver()) return; // also by the page, which wants nothing more of this piece
          if (event.event === "reset" && event.id !== undefined) throw new StreamError("evicted", event.data);
        }
      }
      decoder.end();
      lost("truncated", this.location)();
    } finally {
      clearInterval(pulse.timer);
      if (reader && this.#isWhole()) drain(reader, connection);
      else connection.abort();
    }
  }

  /**
   * Whether its user gets an event.
   *
   * @param {StreamEvent} event
   */
  #isNew({ event, data, id = "" }) {
    if (event === "reset") this.#epoch = "";
    const [, epoch, digits] = OUR_ID.exec(id) ?? [];
    if (epoch) {
      const number = Number(digits);
      if (epoch === this.#epoch && number <= this.#number) return false;
      [this.#epoch, this.#number] = [epoch, number];
    }
    if (event === "restart" && this.location)
      throw new StreamError("restart", "The server restarts.", { isTransient: true });
    if (event === "error") throw failure(data);
    return true;
  }

  /**
   * Ask for the stream, or for the rest of it.
   *
   * @param {AbortSignal} signal
   * @returns {Promise<ReadableStreamDefaultReader<Uint8Array> | undefined>} nothing: there is nothing more
   */
  async #ask(signal) {
    const { hintAfter = 8000, onhint = (hint) => console.warn(hint), onopen } = this.#options;
    const isBack = Boolean(this.location);
    this.#become("connecting");
    const hint = setTimeout(() => tell(onhint, NO_ANSWER), hintAfter);
    try {
      const response = await (isBack ? this.#fetch(this.location, "GET", { signal }) : this.#begin(signal)).catch(
        lost("unreachable", isBack || this.#key),
      );
      if (response.status === 204) return;
      const type = response.headers.get("Content-Type") ?? "";
      const isStream = response.ok && type.startsWith("text/event-stream");
      if (!isStream || !response.body) throw await refusal(response, isBack);
      this.location = placeOf(response, this.#url) || this.location;
      this.#become("open");
      tell(onopen, response);
      return response.body.getReader();
    } finally {
      clearTimeout(hint);
    }
  }

  /** @param {AbortSignal} signal */
  #begin(signal) {
    const { body, method = body === undefined ? "GET" : "POST" } = this.#options;
    const isJson = isPlain(body);
    const sent = /** @type {BodyInit | undefined} */ (isJson ? JSON.stringify(body) : body);
    return this.#fetch(this.#url, method, { signal, body: sent ?? null }, (headers) => {
      if (isJson && !headers.has("Content-Type")) headers.set("Content-Type", "application/json");
      if (this.#key && !headers.has("Idempotency-Key")) headers.set("Idempotency-Key", this.#key);
    });
  }

  /**
   * @param {string} url
   * @param {string} method
   * @param {RequestInit} init
   * @param {(headers: Headers) => void} [more]
   */
  #fetch(url, method, init, more) {
    const { fetch: ask = fetch, credentials = "same-origin", csrfToken } = this.#options;
    const headers = new Headers(this.#options.headers);
    headers.set("Accept", "text/event-stream");
    if (csrfToken && method !== "GET") headers.set("X-CSRFToken", csrfToken);
    // The bytes of UTF-8, as the standard wants it: a header has no other characters.
    const id = String.fromCharCode(...new TextEncoder().encode(this.lastEventId));
    if (id && method !== "DELETE") headers.set("Last-Event-ID", id);
    more?.(headers);
    return ask(url, { ...init, method, headers, credentials, cache: "no-store" });
  }

  /**
   * Wait before the next attempt: twice as long each time, up to a limit; then up to half as much more, so that not
   * all clients come in the same moment.
   *
   * @param {number} attempt
   * @param {StreamError} error
   */
  async #pause(attempt, error) {
    const { minDelay = 1000, maxDelay = 30_000, onretry } = this.#options;
    const first = this.#decoder.retry ?? minDelay;
    const base = attempt > 1 ? Math.max(first, minDelay) : first; // a server may tell 0
    const wanted = Math.min(base * 2 ** (attempt - 1), Math.max(base, maxDelay));
    const delay = Math.min(Math.max(wanted, error.retryAfter ?? 0) * (1 + Math.random() / 2), LONGEST_TIMER);
    this.#mayHurry = error.retryAfter === undefined && error.code !== "restart";
    this.#become("waiting");
    tell(onretry, { delay, attempt, error });
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, delay);
      this.#wake = () => resolve(clearTimeout(timer));
    });
  }

  /**
   * A page that is put aside whole, to be shown again by the back button, lets its connection go, and comes back.
   *
   * @param {Event} event
   */
  #pageChanged(event) {
    const isPutAside = event.type === "pagehide" && /** @type {PageTransitionEvent} */ (event).persisted;
    if (isPutAside && this.location) this.#connection.abort();
    else if (event.type !== "pagehide" && this.#mayHurry) this.#wake();
  }
}

/**
 * Read a stream: `for await (const event of stream(url, options))`. Nothing is asked before the loop begins.
 *
 * The loop ends after `done` or `stopped`; everything else that ends it is thrown, a `StreamError` or what the signal
 * was aborted with. An event `reset` says that what came before is to be forgotten.
 *
 * @param {string | URL} url
 * @param {Options} [options]
 */
export function stream(url, options = {}) {
  return new Stream(url, options);
}

/**
 * The same with callbacks. After `close()`, or an abort, none is called.
 *
 * @param {string | URL} url
 * @param {Options & Callbacks} [options]
 */
export function listen(url, options = {}) {
  const events = stream(url, options);
  const read = async () => {
    try {
      for await (const event of events) options.onevent?.(event);
      if (events.state !== "closed") options.onend?.(events);
    } catch (error) {
      if (events.state === "closed" && options.signal?.aborted) return;
      if (!options.onerror) throw error;
      options.onerror(error);
    }
  };
  read();
  return events;
}

/**
 * Paint text as it comes, once for each frame of the screen. It is appended to what is there, as text: no HTML, no
 * selection lost; and whoever is at the end of what scrolls stays there, whoever has scrolled up stays too.
 *
 * @param {Element} element
 * @param {{ text?: (event: StreamEvent) => string, scroller?: Element }} [options] `text`: what an event says, without
 *     it that of `/chat`; `scroller`: what scrolls, without it the first around the element that does
 */
export function paint(element, { text = (event) => JSON.parse(event.data).t ?? "", scroller } = {}) {
  /** @type {Text[]} */
  let nodes = [];
  let pending = "";
  let frame = 0;
  let timer = 0;

  const flush = () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    frame = 0;
    if (!pending) return;
    const box = scroller ?? scrollerOf(element);
    const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 16;
    const last = nodes[nodes.length - 1];
    if (last?.isConnected && last.length < NODE_CHARACTERS) last.appendData(pending);
    else element.append((nodes[nodes.length] = document.createTextNode(pending)));
    pending = "";
    if (isAtEnd) box.scrollTop = box.scrollHeight;
  };

  const painter = {
    /** @param {string} more */
    add(more) {
      pending += more;
      if (frame) return;
      frame = requestAnimationFrame(flush);
      timer = setTimeout(flush, 250); // a hidden page has no frames
    },
    /**
     * Paint what an event says; `reset` empties.
     *
     * @param {StreamEvent} event
     */
    take(event) {
      if (event.event === "reset") painter.clear();
      else if (event.event === "message") painter.add(text(event));
    },
    clear() {
      pending = "";
      for (const node of nodes) node.remove();
      nodes = [];
    },
    flush,
  };
  return painter;
}

const NODE_CHARACTERS = 4096; // a browser lays out one text node as a whole

/** @param {Element} element */
function scrollerOf(element) {
  /** @type {Element | null} */
  let box = element;
  while (box && !/auto|scroll/.test(getComputedStyle(box).overflowY)) box = box.parentElement;
  const isOfPage = !box || box === document.body; // what the body says of scrolling, it says of the page
  return (isOfPage && document.scrollingElement) || box || element;
}

/** @param {StreamEvent} event */
function isOurEnd({ event }) {
  return event === "done" || event === "stopped";
}

/** @param {unknown} body */
function isPlain(body) {
  return / (Object|Array)]/.test(Object.prototype.toString.call(body));
}

/**
 * Where a stream is found again: on the server that was asked, whatever a proxy makes it think of its own name.
 *
 * @param {Response} response
 * @param {string} asked
 */
function placeOf(response, asked) {
  const said = response.headers.get("Location");
  if (!said) return "";
  const base = response.url || asked;
  const { pathname, search } = new URL(said, base);
  return new URL(base).origin + pathname + search; // and not resolved: "//host" would be another server
}

/**
 * @param {string} code
 * @param {unknown} [mayHelp] another attempt
 * @returns {(cause?: unknown) => never}
 */
function lost(code, mayHelp) {
  const message = code === "truncated" ? "The connection broke off." : "The server cannot be reached.";
  return (cause) => {
    throw new StreamError(code, message, { cause, isTransient: Boolean(mayHelp) });
  };
}

/**
 * What an `event: error` says, or the body of an error status.
 *
 * @param {string} text
 * @param {More} [more]
 */
function failure(text, more = {}) {
  let said;
  try {
    said = JSON.parse(text);
  } catch {}
  const { code, message, id } = said?.error ?? said ?? {};
  return new StreamError(code ?? "error", message ?? text.slice(0, 200), { ...more, id });
}

/**
 * What is wrong with a response that is no stream.
 *
 * @param {Response} response
 * @param {boolean} isBack it was asked for the rest of one, which may be asked again
 */
async function refusal(response, isBack) {
  const { ok, status, headers } = response;
  const type = headers.get("Content-Type");
  if (ok) return new StreamError("not_a_stream", `expected a stream of events, got ${type}`, { status });
  const text = await response.text().catch(() => "");
  const retryAfter = status === 429 || status === 503 ? milliseconds(headers.get("Retry-After") ?? "") : undefined;
  const mayWait = retryAfter === undefined ? isBack && status >= 500 : retryAfter <= LONGEST_RETRY_AFTER;
  return failure(text || `HTTP ${status}`, { status, isTransient: mayWait, retryAfter });
}

/**
 * @param {string} retryAfter a number of seconds, or a date
 * @returns {number | undefined}
 */
function milliseconds(retryAfter) {
  const found = /^\d+$/.test(retryAfter) ? Number(retryAfter) * 1000 : Date.parse(retryAfter) - Date.now();
  return Number.isNaN(found) ? undefined : Math.max(0, found);
}

/**
 * Count the silence of a connection while something is awaited. Ticks are counted and not time: a page that slept has
 * not been listening.
 *
 * @param {number} idle
 * @param {() => void} die
 */
function watch(idle, die) {
  const tick = () => {
    if (pulse.isAwaited && ++pulse.quiet > 4) die();
  };
  const timer = idle ? setInterval(tick, Math.min(idle / 4, LONGEST_TIMER)) : undefined;
  const pulse = { quiet: 0, isAwaited: false, timer };
  return pulse;
}

/**
 * @param {ReadableStreamDefaultReader<Uint8Array>} reader
 * @param {AbortController} connection
 */
async function drain(reader, connection) {
  const timer = setTimeout(() => connection.abort(), DRAIN);
  try {
    while (!(await reader.read()).done);
  } catch {}
  clearTimeout(timer);
}

/**
 * Call a callback; what it throws is its own, and does not end the stream.
 *
 * @template Told
 * @param {((told: Told) => void) | undefined} callback
 * @param {Told} told
 */
function tell(callback, told) {
  Promise.resolve(told).then(callback);
}
