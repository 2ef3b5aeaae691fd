// @microsoft/fetch-event-source: made for pages. It gets the two globals of a page that it touches, and a `fetch` that
// answers with our pieces.

import { fetchEventSource } from "@microsoft/fetch-event-source";

globalThis.window ??= { clearTimeout, setTimeout };
globalThis.document ??= { hidden: false, addEventListener() {}, removeEventListener() {} };

function answerWith(pieces) {
  const left = pieces.values();
  const body = new ReadableStream({
    pull(controller) {
      const { value, done } = left.next();
      done ? controller.close() : controller.enqueue(value);
    },
  });
  return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
}

export async function read(pieces, onEvent) {
  await fetchEventSource("http://127.0.0.1/", {
    openWhenHidden: true,
    fetch: async () => answerWith(pieces),
    onmessage: onEvent,
    onerror(error) {
      throw error;
    },
  });
}
