// Reads streams with the decoder of the browser client, each in all its cuts: in Node, and in a page.

// `streams`: [{bytes: base64, cuts: [[place, ...], one list for each way to cut it]}, ...]
// Returns for each the different things that were read: one, if a cut makes no difference.
export function everyReading(Decoder, streams) {
  return streams.map(({ bytes, cuts }) => {
    const stream = Uint8Array.from(atob(bytes), (character) => character.charCodeAt(0));
    const different = new Set(cuts.map((places) => JSON.stringify(reading(new Decoder(), cut(stream, places)))));
    return [...different].map((text) => JSON.parse(text));
  });
}

function cut(stream, places) {
  return [...places, stream.length].map((end, n) => stream.slice(n ? places[n - 1] : 0, end));
}

function reading(decoder, pieces) {
  const events = [];
  for (const piece of pieces) {
    for (const { event, data, id = null, lastEventId } of decoder.feed(piece)) events.push([event, data, id, lastEventId]);
  }
  return { events, lastEventId: decoder.lastEventId, retry: decoder.retry ?? null };
}
