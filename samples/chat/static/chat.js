// The page's side of the chat. Everything that is shown goes in as text, never as HTML.

import { paint, stream } from "../stream/client.js";

const ids = ["chat", "state", "ask", "question", "send", "stop", "anew", "leave"];
const [chat, state, ask, question, send, stop, anew, leave] = ids.map((id) => document.getElementById(id));
const csrfToken = document.querySelector("meta[name=csrf-token]").content;

// What a reload must not lose, of this user in this tab: the messages, and the key of an answer that has not come to its
// end. Whoever asks the same with the same key gets the same answer, from its beginning on: nothing is asked twice.
const place = `chat of ${ask.dataset.user}`;
const kept = JSON.parse(sessionStorage.getItem(place)) ?? { messages: [], key: "" };
const keep = () => sessionStorage.setItem(place, JSON.stringify(kept));

function show({ role, content }) {
  const article = document.createElement("article");
  article.className = role;
  article.setAttribute("aria-label", role === "user" ? "You" : "Answer");
  article.textContent = content;
  chat.append(article);
  return article;
}

async function answer() {
  const article = show({ role: "assistant", content: "" });
  const painter = paint(article);
  const events = stream(ask.dataset.url, {
    body: { messages: kept.messages },
    csrfToken,
    idempotencyKey: kept.key,
    maxRetries: Infinity, // for as long as the page is open
    onopen: () => (state.textContent = "The answer comes."),
    onretry: ({ error, delay }) => (state.textContent = `${error.message} Trying again in ${Math.ceil(delay / 1000)} s.`),
  });
  stop.onclick = () => events.stop().catch((error) => (state.textContent = error.message));
  busy(article, true);
  chat.scrollTop = chat.scrollHeight; // the painter keeps it at the end for whoever is there
  state.textContent = "Asking.";
  try {
    for await (const event of events) painter.take(event);
    state.textContent = events.state === "stopped" ? "Stopped." : "Done.";
  } catch (error) {
    state.textContent = error.message;
  }
  painter.flush();
  finish(article);
  busy(article, false);
}

// A part of an answer is part of the conversation. Without a word of an answer the question goes back to be asked again.
function finish(article) {
  const content = article.textContent;
  kept.key = "";
  if (content) {
    kept.messages.push({ role: "assistant", content });
  } else {
    article.previousElementSibling.remove();
    article.remove();
    question.value = `${kept.messages.pop().content}\n${question.value}`.trim();
  }
  keep();
}

function busy(article, isBusy) {
  article.setAttribute("aria-busy", isBusy); // a screen reader waits for the whole of it
  send.disabled = anew.disabled = isBusy;
  if (document.activeElement === stop) question.focus(); // which a button that is disabled would lose
  stop.disabled = !isBusy;
}

ask.addEventListener("submit", (event) => {
  event.preventDefault();
  const content = question.value.trim();
  if (!content || send.disabled) return;
  kept.messages.push({ role: "user", content });
  kept.key = crypto.getRandomValues(new Uint32Array(4)).join("-");
  keep();
  question.value = "";
  show(kept.messages[kept.messages.length - 1]);
  answer();
});

question.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send.click();
});

anew.addEventListener("click", () => {
  sessionStorage.removeItem(place);
  location.reload();
});

leave.addEventListener("submit", () => sessionStorage.clear());

kept.messages.forEach(show);
chat.scrollTop = chat.scrollHeight;
if (kept.key) answer();
else send.disabled = false; // nobody could ask before this script was there
