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
 * The last four are ends: `closed` is one of the page's own, after which no callback is called.
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
 * @property {number} [maxRetries] attempts in a row without an event (a `reset` is none); 8
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

const { max, min } = Math;
const OUR_ID = /^([0-9a-f]{20})-(\d{1,15})$/;
const LONGEST_TIMER = 2 ** 31 - 1; // a longer one fires at once
const LEAST_DELAY = 250; // from the second loss on: a server may tell 0, and be lost again and again
const LONGEST_RETRY_AFTER = 300_000;
const STOP = 6000; // for what a stop waits for: a server with a store sends its head within 5 seconds
const LAST_BYTES = 1000; // for the words of an error; and to the end of a connection, which the browser then uses again
const MOST_CHARACTERS = 2 ** 24; // of one event
const MOST_WORDS = 2 ** 16; // characters of an error
const LOST = {
  truncated: "The connection broke off.",
  unreachable: "The server cannot be reached.",
  restart: "The server restarts.",
};
const NODE_CHARACTERS = 4096; // a browser lays out one text node as a whole
const NO_ANSWER = "No answer yet. A browser opens six connections to a server: other tabs?";

/**
 * @typedef {object} More
 * @property {unknown} [cause]
 * @property {string | undefined} [id]
 * @property {number} [status]
 * @property {number | undefined} [retryAfter]
 * @property {unknown} [isTransient]
 */

/** Why a stream failed: `code` is the server's, or one of those in docs/client.md. */
export class StreamError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {More} [more]
   */
  constructor(code, message, more = {}) {
    super(message, more);
    this.name = "StreamError";
    this.code = code;
    /** Under which the server's log says more. */
    this.id = more.id;
    /** Of the HTTP response. */
    this.status = more.status;
    /** Milliseconds after which the server wants to be asked again. */
    this.retryAfter = more.retryAfter;
    /** Another attempt may help. */
    this.isTransient = Boolean(more.isTransient);
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

  /** @param {{ lastEventId?: string, retry?: number | undefined }} [start] the connection before */
  constructor({ lastEventId = "", retry } = {}) {
    this.lastEventId = lastEventId;
    /** The time to come back that the server told, in milliseconds. */
    this.retry = retry;
  }

  /**
   * @param {Uint8Array} bytes
   * @returns {Generator<StreamEvent, void>}
   */
  *feed(bytes) {
    const text = this.#utf8.decode(bytes, { stream: true });
    if (!text) return;
    const lines = (this.#endsWithCR ? text.replace(/^\n/, "") : text).split(/\r\n|\r|\n/);
    this.#endsWithCR = text.endsWith("\r");
    lines[0] = this.#line + lines[0];
    this.#line = lines.pop() ?? "";
    for (const line of lines) {
      const event = line ? this.#field(line) : this.#dispatch();
      if (event) yield event;
    }
    if (this.#held + this.#line.length > MOST_CHARACTERS)
      throw new StreamError("event_too_large", "An event is too large.");
  }

  /** @param {string} line */
  #field(line) {
    const [, name, value = ""] = /^([^:]*):? ?(.*)/s.exec(line) ?? []; // a comment has the name ""
    if (name === "data") {
      this.#data.push(value);
      this.#held += value.length + 1;
    } else if (name === "event") this.#name = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "retry" && /^\d{1,18}$/.test(value)) this.retry = Number(value);
  }

  /** @returns {StreamEvent | undefined} */
  #dispatch() {
    const [data, id] = [this.#data, this.#id];
    const event = this.#name || "message";
    this.lastEventId = id ?? this.lastEventId;
    this.#data = [];
    this.#name = "";
    this.#id = undefined;
    this.#held = 0;
    return data.length ? { event, data: data.join("\n"), id, lastEventId: this.lastEventId } : undefined;
  }
}

/** A stream that is read by `for await`, once. */
class Stream {
  /** @type {State} */
  state = "new";
  #location = "";
  #url;
  #options;
  #key;
  #decoder;
  #isRead = false;
  #epoch = "";
  #number = 0;
  #connection = new AbortController();
  /** @type {Promise<unknown>} */
  #asking = Promise.resolve();
  /** @type {Promise<void> | undefined} */
  #stopping;
  #wake = () => {};
  #mayHurry = false;
  #losses = 0;

  /**
   * @param {string | URL} url
   * @param {Options} options
   */
  constructor(url, options) {
    this.#url = new Request(url).url; // from the page's own on
    this.#options = options;
    if (options.lastEventId) this.#location = this.#url; // it comes back
    // Not `randomUUID`, which a page without TLS does not have.
    this.#key = options.idempotencyKey ?? crypto.getRandomValues(new Uint32Array(4)).join("-");
    this.#decoder = new Decoder(options);
  }

  /** Where it is found again; "": the server keeps nothing, and what is lost is lost. */
  get location() {
    return this.#location;
  }

  /** Of the last event. With `location` all that a page needs to come back after it was loaded anew. */
  get lastEventId() {
    return this.#decoder.lastEventId;
  }

  /** @returns {AsyncGenerator<StreamEvent, void>} */
  async *[Symbol.asyncIterator]() {
    if (this.#isRead) throw new StreamError("already_read", "A stream is read once.");
    this.#isRead = true;
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
            if (event.event !== "reset") attempt = 0;
            yield event;
          }
        } catch (thrown) {
          // Whoever has stopped comes back for the end once. (A stop that fails has ended the reading.)
          if (attempt) await this.#stopping?.then(() => this.#close("stopped"), () => {});
          if (this.#isOver()) break;
          const error = named(thrown);
          if (!error.isTransient || ++attempt > maxRetries) {
            this.#close("failed");
            throw error;
          }
          await this.#pause(attempt, error);
        }
      }
      if (signal?.aborted && this.state === "closed") throw signal.reason;
    } finally {
      hooks.abort();
      this.#close("closed"); // whoever leaves the loop reads no further
    }
  }

  /**
   * End the answer, wherever it is produced. Its reader gets `event: stopped`. Leaving the page does not do this.
   *
   * @returns {Promise<void>} rejected: it may go on, but is read no further; another call tries again
   */
  stop() {
    return (this.#stopping ??= this.#stop().catch((error) => {
      this.#stopping = undefined;
      this.close();
      throw named(error);
    }));
  }

  async #stop() {
    // Before it is answered nobody knows where it is.
    if (!this.#location) await within(STOP, this.#asking, () => this.#close("stopped"));
    if (this.#isWhole()) return;
    if (!this.#location) return this.#close("stopped"); // a server that keeps nothing ends it with its connection
    const request = new AbortController();
    const asked = this.#fetch(this.#location, "DELETE", request, { keepalive: true });
    const response = await within(STOP, asked, () => request.abort()).catch(lost("unreachable"));
    if (!response.ok) throw await refusal(response, request);
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
    if (this.#isOver()) return;
    this.state = state;
    this.#tell(this.#options.onstate, state);
  }

  /**
   * Call a callback, unless the page has closed; what it throws is its own, and does not end the stream.
   *
   * @template Told
   * @param {((told: Told) => void) | undefined} callback
   * @param {Told} told
   */
  async #tell(callback, told) {
    await told;
    if (this.state !== "closed") callback?.(told);
  }

  #isOver() {
    return /done|stopped|failed|closed/.test(this.state);
  }

  #isWhole() {
    return /done|stopped/.test(this.state);
  }

  /**
   * The events of one connection, up to its end.
   *
   * @returns {AsyncGenerator<StreamEvent, void>}
   */
  async *#connected() {
    const { idle = 45_000, isEnd = isOurEnd } = this.#options;
    const connection = (this.#connection = new AbortController());
    // Ticks are counted and not time: a page that slept has not been listening. Nor has one that has an event to take
    // care of; and a first answer may take its time, and must not be asked for twice.
    let silence = this.#location ? 0 : -Infinity;
    const tick = () => ++silence > 4 && connection.abort();
    const watch = idle ? setInterval(tick, min(idle / 4, LONGEST_TIMER)) : 0;
    /** @type {ReadableStreamDefaultReader<Uint8Array> | undefined} */
    let reader;
    try {
      const asking = this.#ask(connection);
      this.#asking = asking.catch(() => {});
      reader = await asking;
      if (!reader) return this.#become("done");
      this.#decoder = new Decoder(this.#decoder);
      while (!this.#isOver()) {
        silence = 0;
        // An end of the bytes is no end of the answer.
        const reading = reader.read().then(({ value }) => value ?? Promise.reject());
        const bytes = await reading.catch(lost("truncated", this.#location));
        silence = -Infinity;
        for (const event of this.#decoder.feed(bytes)) {
          if (this.#isOver()) return; // also by the page, which wants nothing more of this piece
          if (!this.#isNew(event)) continue;
          if (isEnd(event)) this.#become(event.event === "stopped" ? "stopped" : "done");
          yield event;
        }
      }
    } finally {
      clearInterval(watch);
      if (reader && this.#isWhole()) rest(reader, connection);
      else connection.abort();
    }
  }

  /**
   * Whether its user gets an event.
   *
   * @param {StreamEvent} event
   */
  #isNew({ event, data, id = "" }) {
    if (event === "reset") {
      // With an id it is an end. What the page has is all that there will be, and is not to be forgotten.
      if (id) throw new StreamError("evicted", "The server no longer has the rest.");
      this.#epoch = "";
    }
    const [, epoch, digits] = OUR_ID.exec(id) ?? [];
    if (epoch) {
      const number = Number(digits);
      if (epoch === this.#epoch && number <= this.#number) return false;
      [this.#epoch, this.#number] = [epoch, number];
    }
    if (event === "restart" && this.#location) lost("restart", true)();
    if (event === "error") throw failure(data, data);
    return true;
  }

  /**
   * Ask for the stream, or for the rest of it.
   *
   * @param {AbortController} connection
   * @returns {Promise<ReadableStreamDefaultReader<Uint8Array> | undefined>} nothing: there is nothing more
   */
  async #ask(connection) {
    const { hintAfter = 8000, onhint = console.warn, onopen } = this.#options;
    const place = this.#location; // where to come back to
    this.#become("connecting");
    const asked = place ? this.#fetch(place, "GET", connection) : this.#begin(connection);
    const answered = within(hintAfter, asked, () => this.#tell(onhint, NO_ANSWER));
    const response = await answered.catch(lost("unreachable", place || this.#key));
    const { ok, status, headers, body } = response;
    if (status === 204) return;
    if (!ok) throw await refusal(response, connection, place);
    const type = headers.get("Content-Type") ?? "";
    if (!/^text\/event-stream\b/i.test(type) || !body)
      throw new StreamError("not_a_stream", `expected an event stream, got ${type}`, { status });
    this.#keepPlace(response);
    this.#become("open");
    this.#tell(onopen, response);
    return body.getReader();
  }

  /**
   * Where it is found again: on the server that was asked, whatever a proxy makes it think of its own name.
   *
   * @param {Response} response
   */
  #keepPlace({ headers, url }) {
    const said = headers.get("Location");
    const base = new URL(url || this.#url);
    if (said)
      try {
        const { pathname, search } = new URL(said, base);
        this.#location = base.origin + pathname + search; // and not resolved: "//host" would be another server
      } catch {} // what is no place is none
  }

  /** @param {AbortController} connection */
  #begin(connection) {
    const { body, method = body === undefined ? "GET" : "POST" } = this.#options;
    const isJson = / (Object|Array)]/.test({}.toString.call(body));
    const sent = /** @type {BodyInit | null} */ (isJson ? JSON.stringify(body) : body);
    const headers = { "Content-Type": isJson && "application/json", "Idempotency-Key": this.#key };
    return this.#fetch(this.#url, method, connection, { body: sent }, headers);
  }

  /**
   * @param {string} url
   * @param {string} method
   * @param {AbortController} request
   * @param {RequestInit} [init]
   * @param {Record<string, string | false | undefined>} [more] headers
   * @returns {Promise<Response>}
   */
  #fetch(url, method, { signal }, init, more) {
    const { fetch: ask = fetch, credentials, csrfToken } = this.#options;
    const headers = new Headers(this.#options.headers);
    /** @type {typeof more} */
    const ours = { Accept: "text/event-stream", "X-CSRFToken": method !== "GET" && csrfToken, ...more };
    for (const [name, value] of Object.entries(ours)) if (value && !headers.has(name)) headers.set(name, value);
    // The bytes of UTF-8, as the standard wants it: a header has no other characters.
    const id = new TextEncoder().encode(this.lastEventId).reduce((text, byte) => text + String.fromCharCode(byte), "");
    if (id && method !== "DELETE") headers.set("Last-Event-ID", id);
    const request = { ...init, method, headers, credentials, signal, cache: "no-store" };
    return (async () => ask(url, /** @type {RequestInit} */ (request)))(); // one that throws is one that fails
  }

  /**
   * Wait before the next attempt: twice as long each time, up to a limit; then up to half as much more, so that not
   * all clients come in the same moment. A server that restarts tells when it wants to be asked.
   *
   * @param {number} attempt
   * @param {StreamError} error
   */
  async #pause(attempt, error) {
    const { minDelay = 1000, maxDelay = 30_000, onretry } = this.#options;
    const isRestart = error.code === "restart";
    const first = max(this.#decoder.retry ?? minDelay, this.#losses++ ? LEAST_DELAY : 0);
    const wanted = isRestart ? first : min(first * 2 ** (attempt - 1), max(first, maxDelay));
    const delay = min(max(wanted, error.retryAfter ?? 0) * (1 + Math.random() / 2), LONGEST_TIMER);
    this.#mayHurry = !error.retryAfter && !isRestart;
    this.#become("waiting");
    this.#tell(onretry, { delay, attempt, error });
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
    const { type, persisted } = /** @type {PageTransitionEvent} */ (event);
    if (type === "pagehide") {
      if (persisted && this.#location) this.#connection.abort();
    } else if (this.#mayHurry) this.#wake();
  }
}

/**
 * Read a stream: `for await (const event of stream(url, options))`. Nothing is asked before the loop begins.
 *
 * The loop ends after `done` or `stopped`, and where the page closes it; everything else that ends it is thrown, a
 * `StreamError` or what the signal was aborted with. An event `reset` says that what came before is to be forgotten.
 *
 * @param {string | URL} url
 * @param {Options} [options]
 */
export function stream(url, options = {}) {
  return new Stream(url, options);
}

/**
 * The same with callbacks. After `close()`, or an abort, none is called, whichever it is.
 *
 * @param {string | URL} url
 * @param {Options & Callbacks} [options]
 */
export function listen(url, options = {}) {
  const events = stream(url, options);
  const isClosed = () => events.state === "closed";
  const read = async () => {
    try {
      for await (const event of events) if (!isClosed()) options.onevent?.(event);
      if (!isClosed()) options.onend?.(events);
    } catch (error) {
      if (isClosed() && options.signal?.aborted) return;
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
    const last = nodes.at(-1);
    if (last?.isConnected && last.length < NODE_CHARACTERS) last.appendData(pending);
    else element.append((nodes[nodes.length] = new Text(pending)));
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

/**
 * @param {keyof typeof LOST} code
 * @param {unknown} [isTransient]
 * @returns {(cause?: unknown) => never}
 */
function lost(code, isTransient) {
  return (cause) => {
    throw new StreamError(code, LOST[code], { cause, isTransient });
  };
}

/**
 * Whatever was thrown, with a code. What is none of ours has gone wrong in the page: a header, a body, an option.
 *
 * @param {unknown} error
 */
function named(error) {
  return error instanceof StreamError ? error : new StreamError("usage", String(error), { cause: error });
}

/**
 * What an `event: error` says, or the body of an error status: `{error: {code, message}}`, `{error: "..."}`, or
 * without the `error` around it.
 *
 * @param {string} text
 * @param {string} otherwise the message, if there is none in it
 * @param {More} [more]
 */
function failure(text, otherwise, more) {
  let said;
  try {
    said = JSON.parse(text);
  } catch {}
  const error = said?.error ?? said;
  const message = firstText(error?.message, error, otherwise).slice(0, 500);
  return new StreamError(firstText(error?.code, "error"), message, { ...more, id: error?.id });
}

/**
 * @param {...unknown} values
 * @returns {string}
 */
function firstText(...values) {
  return /** @type {string} */ (values.find((value) => typeof value === "string"));
}

/**
 * What a response with an error status says.
 *
 * @param {Response} response
 * @param {AbortController} connection
 * @param {unknown} [isBack] it was asked for the rest of one, which may be asked again
 */
async function refusal({ status, headers, body }, connection, isBack) {
  const text = body ? await rest(body.getReader(), connection) : "";
  const retryAfter = status === 429 || status === 503 ? milliseconds(headers.get("Retry-After") ?? "") : undefined;
  const mayWait = retryAfter === undefined ? isBack && status >= 500 : retryAfter <= LONGEST_RETRY_AFTER;
  return failure(text, `HTTP ${status}`, { status, isTransient: mayWait, retryAfter });
}

/**
 * @param {string} retryAfter a number of seconds, or a date
 * @returns {number | undefined}
 */
function milliseconds(retryAfter) {
  const found = /^\d+$/.test(retryAfter) ? Number(retryAfter) * 1000 : Date.parse(retryAfter) - Date.now();
  return isNaN(found) ? undefined : max(0, found);
}

/**
 * The rest of a body, which has no more than `LAST_BYTES` to come in; its beginning as text.
 *
 * @param {ReadableStreamDefaultReader<Uint8Array>} reader
 * @param {AbortController} connection
 */
async function rest(reader, connection) {
  const utf8 = new TextDecoder();
  let text = "";
  const timer = setTimeout(() => connection.abort(), LAST_BYTES);
  try {
    for (let part; !(part = await reader.read()).done; )
      if (text.length < MOST_WORDS) text += utf8.decode(part.value, { stream: true });
  } catch {}
  clearTimeout(timer);
  return text;
}

/**
 * Wait for something; if it takes too long, do something about it.
 *
 * @template Found
 * @param {number} milliseconds
 * @param {Promise<Found>} awaited
 * @param {() => void} late
 */
function within(milliseconds, awaited, late) {
  const timer = setTimeout(late, min(milliseconds, LONGEST_TIMER));
  return awaited.finally(() => clearTimeout(timer));
}
