// The page's side of the chat. Everything that is shown goes in as text, never as HTML.

import { paint, stream } from "../stream/client.js";

const ids = ["chat", "state", "again", "ask", "question", "send", "stop", "anew"];
const [chat, state, again, ask, question, send, stop, anew] = ids.map((id) => document.getElementById(id));
const csrfToken = document.querySelector("meta[name=csrf-token]").content;
const PATIENCE = 3000; // milliseconds for the server to stop an answer
const UNTOLD = "Stopped here. The server was not told; it ends what nobody reads.";

// What a reload must not lose, of this user in this tab: the messages, and the key of an answer that has not come to its
// end. Whoever asks the same with the same key gets the same answer, from its beginning on: nothing is asked twice.
const place = `chat of ${ask.dataset.user}`;
const kept = remembered() ?? { messages: [], key: "" };
const keep = () => sessionStorage.setItem(place, JSON.stringify(kept));

function remembered() {
  const others = Object.keys(sessionStorage).filter((key) => key.startsWith("chat of ") && key !== place);
  for (const key of others) sessionStorage.removeItem(key); // they have left
  try {
    return JSON.parse(sessionStorage.getItem(place));
  } catch {
    return null;
  }
}

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
  const events = stream(ask.dataset.url, {
    body: { messages: kept.messages },
    csrfToken,
    idempotencyKey: kept.key,
    maxRetries: Infinity, // for as long as the page is open
    onopen: () => (state.textContent = "The answer comes."),
    onretry: ({ error, delay }) => (state.textContent = `${error.message} Trying again in ${Math.ceil(delay / 1000)} s.`),
  });
  if (document.activeElement === again) question.focus(); // which a button that is hidden would lose
  again.hidden = true;
  busy(article, true);
  chat.scrollTop = chat.scrollHeight; // the painter keeps it at the end for whoever is there
  state.textContent = "Asking.";
  const isOver = await read(events, paint(article));
  busy(article, false);
  if (isOver) settle(article);
  else again.hidden = false;
}

// Whether the answer is over. Where its end did not come, but something else in its place, such as the page of a proxy
// without a server, the answer may be there all the same: it keeps its key.
async function read(events, painter) {
  let isWanted = true;
  stop.onclick = () => {
    isWanted = false;
    leave(events);
  };
  try {
    for await (const event of events) painter.take(event);
    state.textContent = { done: "Done.", stopped: "Stopped." }[events.state] ?? UNTOLD;
    return true;
  } catch (error) {
    state.textContent = isWanted ? error.message : UNTOLD;
    return !isWanted || !error.status;
  } finally {
    painter.flush();
  }
}

// Ends the answer: here in any case, and at the server if that can be reached.
function leave(events) {
  const close = () => events.close();
  state.textContent = "Stopping.";
  events.stop().catch(close);
  setTimeout(close, PATIENCE);
}

// A part of an answer is part of the conversation. Without a word of an answer the question goes back to be asked again.
function settle(article) {
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
  if (document.activeElement === stop) question.focus();
  stop.disabled = !isBusy;
}

ask.addEventListener("submit", (event) => {
  event.preventDefault();
  const content = question.value.trim();
  if (!content || send.disabled) return;
  if (kept.key) settle(chat.lastElementChild); // what was not asked again is given up
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

again.addEventListener("click", () => {
  chat.lastElementChild.remove(); // it comes from its beginning
  answer();
});

// login.js, of whatever tab: nobody is logged in any more. The server says what this page may still show.
new BroadcastChannel("login").addEventListener("message", () => location.reload());

kept.messages.forEach(show);
chat.scrollTop = chat.scrollHeight;
if (kept.key) answer();
else send.disabled = false; // nobody could ask before this script was there
