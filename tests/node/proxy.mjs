// Proxies as people write them in Node: `node proxy.mjs DESCRIPTOR NAME UPSTREAM` serves one of them on a socket
// that is listening already. The first ones are real packages; the others are a few lines with a mistake in them.

import http from "node:http";
import zlib from "node:zlib";

import compression from "compression";
import express from "express";
import httpProxy from "http-proxy";
import { createProxyMiddleware, responseInterceptor } from "http-proxy-middleware";

const [descriptor, name, upstream] = process.argv.slice(2);

// What an answer is passed on with: headers that are about one connection only are not for the next one.
function passed(headers, ...without) {
  const dropped = ["connection", "keep-alive", "transfer-encoding", "content-length", ...without];
  return Object.fromEntries(Object.entries(headers).filter(([key]) => !dropped.includes(key)));
}

// A proxy that asks upstream and gives the answer to `answered(theirs, ours)`.
function asking(answered) {
  return (request, ours) => {
    const { method, headers, url } = request;
    const outgoing = http.request(new URL(url, upstream), { method, headers, agent: false });
    outgoing.on("response", (theirs) => answered(theirs, ours));
    outgoing.on("error", () => (ours.headersSent ? ours.destroy() : ours.writeHead(502).end()));
    ours.on("close", () => outgoing.destroy());
    request.pipe(outgoing);
  };
}

// A proxy that hands each piece to what `made(write)` returns: {data(piece), end()}.
function piecewise(made, ...without) {
  return asking((theirs, ours) => {
    ours.writeHead(theirs.statusCode, passed(theirs.headers, ...without));
    const { data, end = () => {} } = made((piece) => ours.write(piece), ours);
    theirs.on("data", data);
    theirs.on("end", () => {
      end();
      ours.end();
    });
    theirs.on("error", () => ours.destroy());
  });
}

// So many bytes are collected before any is passed on.
const blocks = (size) => (write) => {
  let held = Buffer.alloc(0);
  return {
    data(piece) {
      held = Buffer.concat([held, piece]);
      while (held.length >= size) {
        write(held.subarray(0, size));
        held = held.subarray(size);
      }
    },
    end: () => write(held),
  };
};

// The first so many bytes are looked at before anything is passed on.
const first = (size) => (write) => {
  let held = Buffer.alloc(0);
  return {
    data(piece) {
      if (held === null) return write(piece);
      held = Buffer.concat([held, piece]);
      if (held.length >= size) {
        write(held);
        held = null;
      }
    },
    end: () => held && write(held),
  };
};

// What came is passed on at every so many milliseconds.
const timed = (milliseconds) => (write, ours) => {
  let held = [];
  const flush = () => {
    if (held.length) write(Buffer.concat(held.splice(0)));
  };
  const timer = setInterval(flush, milliseconds);
  ours.on("close", () => clearInterval(timer));
  return { data: (piece) => held.push(piece), end: flush };
};

// So many writes are collected.
const corked = (writes) => (write, ours) => {
  let n = 0;
  ours.cork();
  return {
    data(piece) {
      write(piece);
      if (++n % writes === 0) {
        ours.uncork();
        ours.cork();
      }
    },
    end: () => ours.uncork(),
  };
};

// The newest piece is kept until the next one comes.
const newest = (write) => {
  let held = null;
  return {
    data(piece) {
      if (held) write(held);
      held = piece;
    },
    end: () => held && write(held),
  };
};

// What came is passed on when nothing more has come for so many milliseconds.
const pausing = (milliseconds) => (write) => {
  let held = [];
  let timer = null;
  const flush = () => held.length && write(Buffer.concat(held.splice(0)));
  return {
    data(piece) {
      held.push(piece);
      clearTimeout(timer);
      timer = setTimeout(flush, milliseconds);
    },
    end: () => (clearTimeout(timer), flush()),
  };
};

// The two newest pieces are kept.
const twoNewest = (write) => {
  const held = [];
  return {
    data: (piece) => held.push(piece) > 2 && write(held.shift()),
    end: () => held.splice(0).forEach((piece) => write(piece)),
  };
};

// Line by line, each as soon as it is whole.
const lines = (write) => {
  let rest = "";
  return {
    data(piece) {
      const all = (rest + piece).split("\n");
      rest = all.pop();
      all.forEach((line) => write(line + "\n"));
    },
    end: () => rest && write(rest),
  };
};

// Each piece, and the end, is passed on so many milliseconds after it came: far away, and not held.
function later(milliseconds) {
  return shifted((now) => now + milliseconds);
}

// Each piece at a time of its own, and never before the one that came before it.
function shifted(due) {
  return asking((theirs, ours) => {
    ours.writeHead(theirs.statusCode, passed(theirs.headers));
    ours.flushHeaders();
    const begun = Date.now();
    let last = begun;
    const then = (act) => {
      const now = Date.now();
      last = Math.max(last + 1, due(now, begun, last));
      setTimeout(act, last - now);
    };
    theirs.on("data", (piece) => then(() => ours.write(piece)));
    theirs.on("end", () => then(() => ours.end()));
    theirs.on("error", () => ours.destroy());
  });
}

// No answer takes longer than this.
function limited(milliseconds, cut) {
  return asking((theirs, ours) => {
    ours.writeHead(theirs.statusCode, passed(theirs.headers));
    const timer = setTimeout(() => cut(ours), milliseconds);
    ours.on("close", () => clearTimeout(timer));
    theirs.pipe(ours);
  });
}

// No pause may be longer than this.
function impatient(milliseconds) {
  return asking((theirs, ours) => {
    ours.writeHead(theirs.statusCode, passed(theirs.headers));
    theirs.setTimeout(milliseconds, () => ours.destroy());
    theirs.pipe(ours);
  });
}

// One answer at a time; the others wait for it.
function oneByOne() {
  let last = Promise.resolve();
  return (request, ours) => {
    const before = last;
    last = new Promise((resolve) => ours.on("close", resolve));
    before.then(() => asking((theirs, out) => {
      out.writeHead(theirs.statusCode, passed(theirs.headers));
      theirs.pipe(out);
    })(request, ours));
  };
}

// An answer that was whole once is given again, whatever is asked.
function remembering() {
  let kept = null;
  return (request, ours) => {
    if (request.url.includes("ask=")) return plain(request, ours);
    if (kept) return ours.writeHead(200, kept.headers).end(kept.body);
    asking((theirs, out) => {
      const pieces = [];
      out.writeHead(theirs.statusCode, passed(theirs.headers));
      theirs.on("data", (piece) => (pieces.push(piece), out.write(piece)));
      theirs.on("end", () => {
        if (theirs.statusCode === 200) kept = { headers: passed(theirs.headers), body: Buffer.concat(pieces) };
        out.end();
      });
    })(request, ours);
  };
}

function compressed(stream, coding) {
  return asking((theirs, ours) => {
    ours.writeHead(theirs.statusCode, { ...passed(theirs.headers), "content-encoding": coding });
    theirs.pipe(stream()).pipe(ours);
  });
}

function inExpress(...handlers) {
  const app = express();
  handlers.forEach((handler) => app.use(handler));
  return app;
}

const plain = asking((theirs, ours) => {
  ours.writeHead(theirs.statusCode, passed(theirs.headers));
  theirs.pipe(ours);
});

const middleware = () => createProxyMiddleware({ target: upstream, changeOrigin: false });
const { Z_SYNC_FLUSH, BROTLI_OPERATION_FLUSH } = zlib.constants;

const PROXIES = {
  "http-proxy": () => {
    const proxy = httpProxy.createProxyServer({ target: upstream });
    proxy.on("error", (error, request, ours) => ours.destroy());
    return (request, ours) => proxy.web(request, ours);
  },
  "http-proxy-middleware": () => inExpress(middleware()),
  interceptor: () =>
    inExpress(
      createProxyMiddleware({
        target: upstream,
        selfHandleResponse: true,
        on: { proxyRes: responseInterceptor(async (body) => body) },
      }),
    ),
  compression: () => inExpress(compression({ filter: () => true }), middleware()),
  "compression-by-type": () => inExpress(compression(), middleware()),
  "compression-gzip-flushed": () => inExpress(compression({ filter: () => true, flush: Z_SYNC_FLUSH }), middleware()),
  "compression-flushed": () =>
    inExpress(
      compression({ filter: () => true, flush: Z_SYNC_FLUSH, brotli: { flush: BROTLI_OPERATION_FLUSH } }),
      middleware(),
    ),
  "compression-not-of-events": () =>
    inExpress(
      compression({ filter: (request, ours) => !/event-stream/.test(ours.getHeader("Content-Type")) }),
      middleware(),
    ),
  pipe: () => plain,
  fetch: () => async (request, ours) => {
    const theirs = await fetch(new URL(request.url, upstream), { method: request.method });
    ours.writeHead(theirs.status, passed(Object.fromEntries(theirs.headers), "content-encoding"));
    for await (const piece of theirs.body) ours.write(piece);
    ours.end();
  },
  text: () => async (request, ours) => {
    const theirs = await fetch(new URL(request.url, upstream), { method: request.method });
    const text = await theirs.text();
    ours.writeHead(theirs.status, passed(Object.fromEntries(theirs.headers), "content-encoding")).end(text);
  },
  gzip: () => compressed(() => zlib.createGzip(), "gzip"),
  "gzip-flushed": () => compressed(() => zlib.createGzip({ flush: Z_SYNC_FLUSH }), "gzip"),
  "blocks-of-512": () => piecewise(blocks(512)),
  "blocks-of-2048": () => piecewise(blocks(2048)),
  "blocks-of-131072": () => piecewise(blocks(131072)),
  "first-300": () => piecewise(first(300)),
  "first-3000": () => piecewise(first(3000)),
  "every-1000-ms": () => piecewise(timed(1000)),
  "every-250-ms": () => piecewise(timed(250)),
  "cork-2": () => piecewise(corked(2)),
  "cork-20": () => piecewise(corked(20)),
  "pause-50-ms": () => piecewise(pausing(50)),
  "pause-150-ms": () => piecewise(pausing(150)),
  "two-newest": () => piecewise(twoNewest),
  lines: () => piecewise(lines),
  "blocks-of-8192": () => piecewise(blocks(8192), "x-accel-buffering"),
  "blocks-of-32768": () => piecewise(blocks(32768)),
  "first-1024": () => piecewise(first(1024)),
  "first-16384": () => piecewise(first(16384)),
  "every-500-ms": () => piecewise(timed(500)),
  "every-150-ms": () => piecewise(timed(150)),
  "cork-10": () => piecewise(corked(10)),
  "cork-4": () => piecewise(corked(4)),
  newest: () => piecewise(newest),
  "strips-the-mark": () => piecewise((write) => ({ data: write }), "x-accel-buffering"),
  "40-ms-away": () => later(40),
  "80-ms-away": () => later(80),
  "250-ms-away": () => later(250),
  "150-ms-each": () => shifted((now, begun, last) => Math.max(now, last) + 150),
  "up-to-150-ms-away": () => shifted((now) => now + Math.random() * 150),
  "first-1-s": () => shifted((now, begun) => Math.max(now, begun + 1000)),
  "ends-after-2-s": () => limited(2000, (ours) => ours.end()),
  "ends-after-1-s": () => limited(1000, (ours) => ours.end()),
  "cuts-after-1-s": () => limited(1000, (ours) => ours.destroy()),
  "impatient-1-s": () => impatient(1000),
  "one-by-one": oneByOne,
  remembering,
};

process.on("unhandledRejection", () => {});
http.createServer(PROXIES[name]()).listen({ fd: Number(descriptor) });
