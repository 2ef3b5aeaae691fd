// Questions come as lines of JSON on the standard input, and each is answered, when it is, by a line on the standard
// output. One process asks them all, several at a time, since Node takes longer to start than they take to answer.
//
// In:   {"number", "way": "plain" | "helper" | "whole", and the fields of `Question` of tests/sdks/heard.py}
// Out:  {"number", and the fields of `Heard`}

import { createInterface } from "node:readline";

// Seconds of the clock that Python's time.monotonic() reads too.
const now = () => Number(process.hrtime.bigint()) / 1e9;

export function hear(heard, text) {
  if (!text) return; // it is no token
  heard.tokens.push(text);
  heard.arrivals.push(now());
}

// The text that the client has put together: it has the last word.
export function hearWhole(heard, text) {
  if (heard.tokens.join("") !== (text ?? "")) {
    Object.assign(heard, { tokens: [], arrivals: [] });
    hear(heard, text);
  }
}

export function wantsMore(heard, { leave_after }) {
  if (leave_after === null || heard.tokens.length < leave_after) return true;
  heard.left_at ??= now();
  return false;
}

function kindsOf(error) {
  const kinds = [];
  for (let kind = error?.constructor; kind?.name; kind = Object.getPrototypeOf(kind)) kinds.push(kind.name);
  return kinds;
}

async function answer(ways, question) {
  const heard = { number: question.number, tokens: [], arrivals: [], calls: {} };
  try {
    await ways[question.way](question, heard);
  } catch (error) {
    Object.assign(heard, {
      error: kindsOf(error),
      status: error?.status ?? null,
      message: String(error?.message),
      retry_after: error?.headers?.get?.("retry-after") ?? null,
    });
  }
  process.stdout.write(JSON.stringify(heard) + "\n");
}

export async function answerQuestions(ways) {
  const open = new Set();
  for await (const line of createInterface({ input: process.stdin })) {
    const answered = answer(ways, JSON.parse(line)).finally(() => open.delete(answered));
    open.add(answered);
  }
  await Promise.all(open);
}
