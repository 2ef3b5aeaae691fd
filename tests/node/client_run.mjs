// Reads answers of a real server with the browser client, all at once: `node client_run.mjs CLIENT URL`.
//
// In, on the standard input: [{body, options, act, after}, ...]; `act` is called on the stream after so many events.
// Out, one line for each as soon as it has ended: {n, text, names, state, code, location, asked, attempts}

import { webcrypto } from "node:crypto";
import { readFileSync } from "node:fs";

globalThis.crypto ??= webcrypto; // Node 18 has it under another name

const [client, url] = process.argv.slice(2);
const { stream } = await import(client);

async function run({ body, options, act, after }, n) {
  const told = { n, text: "", names: [], code: "", asked: [], attempts: 0 };
  const aborts = new AbortController();
  const counted = (to, init) => (told.asked.push(init.method), fetch(to, init));
  const onretry = () => (told.attempts += 1);
  const events = stream(url, { body, ...options, fetch: counted, signal: aborts.signal, onretry });
  let heard = 0;
  try {
    for await (const { event, data } of events) {
      if (told.names.at(-1) !== event) told.names.push(event);
      if (event === "message") told.text += JSON.parse(data).t;
      if (event === "reset") told.text = "";
      if (++heard === after) await (act === "abort" ? aborts.abort() : events[act]());
    }
  } catch (error) {
    if (error.name !== "StreamError" && error.name !== "AbortError") throw error;
    told.code = error.name === "StreamError" ? error.code : error.name;
  }
  process.stdout.write(JSON.stringify({ ...told, state: events.state, location: events.location }) + "\n");
}

await Promise.all(JSON.parse(readFileSync(0, "utf8")).map(run));
