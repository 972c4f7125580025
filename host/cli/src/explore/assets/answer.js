// Asks the server, and hands out the parts of its answer as they arrive. Only the newest question
// counts: an older one is given up, and the server notices.

const DEBOUNCE = 90;
const LONGEST = 20_000;

export class Asker {
  #timer = 0;
  #current = null;
  #handlers;

  /** `handlers`: begin(), part(part), end(), fail(message). */
  constructor(handlers) {
    this.#handlers = handlers;
  }

  /** Asks a question soon, or at once. */
  ask(question, delay = DEBOUNCE) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#run(question), delay);
  }

  async #run(question) {
    this.#current?.abort();
    const current = new AbortController();
    this.#current = current;
    const isCurrent = () => this.#current === current;
    const timeout = setTimeout(() => current.abort(new Error("the server did not answer in time")), LONGEST);
    this.#handlers.begin();
    try {
      const response = await post("/api/answer", question, current.signal);
      for await (const line of lines(response.body)) {
        if (!isCurrent()) return;
        this.#handlers.part(JSON.parse(line));
      }
      if (isCurrent()) this.#handlers.end();
    } catch (error) {
      if (isCurrent()) this.#handlers.fail(explain(error));
    } finally {
      clearTimeout(timeout);
    }
  }
}

/** Posts JSON. Throws with the server's message if it refuses. */
export async function post(path, body, signal) {
  const headers = { "content-type": "application/json" };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  if (!response.ok) throw new Error((await response.text()).trim() || `status ${response.status}`);
  return response;
}

/** Gets JSON. Throws with the server's message if it refuses. */
export async function get(path, token) {
  const headers = token ? { "x-llsd-token": token } : {};
  const response = await fetch(path, { headers });
  if (!response.ok) throw new Error((await response.text()).trim() || `status ${response.status}`);
  return response.json();
}

/** A message for people. */
export function explain(error) {
  if (error instanceof TypeError) return "The server does not answer. Is llsd explore still running?";
  return error?.message ?? String(error);
}

async function* lines(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const pieces = (rest + value).split("\n");
    rest = pieces.pop();
    yield* pieces.filter((line) => line);
  }
}
