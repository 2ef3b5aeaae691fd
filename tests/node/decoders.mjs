// Reads streams with the decoders of npm, all in one process, since Node takes longer to start than they take to read.
//
// In, on the standard input:
//   {"decoders": [name, ...], "streams": [{"bytes": base64, "cuts": [[place, ...], one list for each way to cut it]}, ...]}
// Out, for each decoder the readings one after the other, each stream in each of its cuts:
//   {name: [{"events": [{event, data, id, retry}, ...], "failure": text or null}, ...]}

import { readFileSync } from "node:fs";

const { decoders, streams } = JSON.parse(readFileSync(0, "utf8"));

function* everyCutting() {
  for (const { bytes, cuts } of streams) {
    const stream = new Uint8Array(Buffer.from(bytes, "base64"));
    for (const places of cuts) {
      yield [...places, stream.length].map((end, n) => stream.slice(n ? places[n - 1] : 0, end));
    }
  }
}

async function reading(read, pieces) {
  const events = [];
  try {
    await read(pieces, (event) => events.push(event));
    return { events, failure: null };
  } catch (error) {
    return { events, failure: String(error) };
  }
}

const answers = {};
for (const name of decoders) {
  const { read } = await import(`./${name}.mjs`);
  answers[name] = [];
  for (const pieces of everyCutting()) {
    answers[name].push(await reading(read, pieces));
  }
}
process.stdout.write(JSON.stringify(answers));
