// The npm package `openai`: its plain stream, and its helper that puts the parts together.

import OpenAI from "openai";
import { answerQuestions, hear, hearWhole, wantsMore } from "./sdk_questions.mjs";

const client = (question) =>
  new OpenAI({
    apiKey: question.key,
    baseURL: `${question.server}/stream/v1`,
    maxRetries: 0,
    timeout: question.timeout * 1000,
  });

async function plain(question, heard) {
  const stream = await client(question).chat.completions.create({
    model: question.model,
    messages: question.messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  for await (const chunk of stream) {
    take(heard, chunk);
    if (!wantsMore(heard, question)) {
      stream.controller.abort();
    }
  }
}

async function helper(question, heard) {
  const stream = client(question).chat.completions.stream({
    model: question.model,
    messages: question.messages,
    stream_options: { include_usage: true },
  });
  for await (const chunk of stream) {
    for (const { delta } of chunk.choices) {
      hear(heard, delta.content);
    }
    if (!wantsMore(heard, question)) {
      stream.abort();
      return;
    }
  }
  takeWhole(heard, await stream.finalChatCompletion());
}

async function whole(question, heard) {
  const { model, messages } = question;
  const completion = await client(question).chat.completions.create({ model, messages });
  takeWhole(heard, completion);
  heard.request_id = completion._request_id;
}

function take(heard, { choices, usage }) {
  if (usage) heard.usage = [usage.prompt_tokens, usage.completion_tokens];
  for (const { delta, finish_reason } of choices) {
    hear(heard, delta.content);
    for (const part of delta.tool_calls ?? []) {
      heard.calls[part.index] ??= [part.id, part.function.name, ""];
      heard.calls[part.index][2] += part.function.arguments;
    }
    heard.finish = finish_reason ?? heard.finish;
  }
}

function takeWhole(heard, { choices: [{ message, finish_reason }], usage }) {
  hearWhole(heard, message.content);
  (message.tool_calls ?? []).forEach(({ id, function: { name, arguments: json } }, n) => {
    heard.calls[n] = [id, name, json];
  });
  heard.usage = [usage.prompt_tokens, usage.completion_tokens];
  heard.finish = finish_reason;
}

await answerQuestions({ plain, helper, whole });
