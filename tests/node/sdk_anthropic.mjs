// The npm package `@anthropic-ai/sdk`: its plain stream, and its helper that puts the parts together.

import Anthropic from "@anthropic-ai/sdk";
import { answerQuestions, hear, hearWhole, wantsMore } from "./sdk_questions.mjs";

const client = (question) =>
  new Anthropic({
    apiKey: question.key,
    baseURL: `${question.server}/stream`,
    maxRetries: 0,
    timeout: question.timeout * 1000,
  });

const wanted = ({ model, messages, max_tokens }) => ({ model, messages, max_tokens });

async function plain(question, heard) {
  const stream = await client(question).messages.create({ ...wanted(question), stream: true });
  for await (const event of stream) {
    take(heard, event);
    if (!wantsMore(heard, question)) {
      stream.controller.abort();
    }
  }
}

async function helper(question, heard) {
  const stream = client(question).messages.stream(wanted(question));
  for await (const { type, delta } of stream) {
    if (type === "content_block_delta" && delta.type === "text_delta") hear(heard, delta.text);
    if (!wantsMore(heard, question)) {
      stream.abort();
      return;
    }
  }
  takeWhole(heard, await stream.finalMessage());
}

async function whole(question, heard) {
  const message = await client(question).messages.create(wanted(question));
  takeWhole(heard, message);
  heard.request_id = message._request_id;
}

function take(heard, { type, index, message, content_block, delta, usage }) {
  if (type === "message_start") {
    heard.usage = [message.usage.input_tokens, 0];
  } else if (type === "content_block_start" && content_block.type === "tool_use") {
    heard.calls[index] = [content_block.id, content_block.name, ""];
  } else if (type === "content_block_delta" && delta.type === "text_delta") {
    hear(heard, delta.text);
  } else if (type === "content_block_delta") {
    heard.calls[index][2] += delta.partial_json;
  } else if (type === "message_delta") {
    heard.usage[1] = usage.output_tokens;
    heard.finish = delta.stop_reason;
  }
}

function takeWhole(heard, { content, usage, stop_reason }) {
  hearWhole(heard, content.map((block) => (block.type === "text" ? block.text : "")).join(""));
  content.forEach((block, n) => {
    if (block.type === "tool_use") heard.calls[n] = [block.id, block.name, JSON.stringify(block.input)];
  });
  heard.usage = [usage.input_tokens, usage.output_tokens];
  heard.finish = stop_reason;
}

await answerQuestions({ plain, helper, whole });
