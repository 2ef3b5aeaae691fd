// eventsource-parser: text in, callbacks out. Its users decode UTF-8 themselves, as here.

import { createParser } from "eventsource-parser";

export async function read(pieces, onEvent) {
  let retry;
  const parser = createParser({
    onEvent: ({ event, data, id }) => onEvent({ event, data, id, retry }),
    onRetry: (milliseconds) => (retry = milliseconds),
    onError: (error) => {
      throw error;
    },
  });
  const utf8 = new TextDecoder();
  for (const piece of pieces) {
    parser.feed(utf8.decode(piece, { stream: true }));
  }
}
