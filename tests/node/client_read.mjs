// Answers the question on the standard input: reads the streams in it with the client in the file that is named.

import { readFileSync } from "node:fs";

import { everyReading } from "./client_vectors.mjs";

const { Decoder } = await import(process.argv[2]);
process.stdout.write(JSON.stringify(everyReading(Decoder, JSON.parse(readFileSync(0, "utf8")))));
