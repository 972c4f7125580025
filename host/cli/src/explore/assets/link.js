// The state of the page in the part of the address after the hash, which browsers do not send.
// Text is compressed; the first character says how.

const LONGEST = 64 * 1024;
const LARGEST = 2 * 1024 * 1024;

/** The state as a fragment, or null if it is too long for an address. */
export async function encode(state) {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  if (bytes.length > LARGEST) return null;
  const packed = await through(bytes, new CompressionStream("deflate-raw"));
  const fragment = "z" + toBase64(packed);
  return fragment.length <= LONGEST ? fragment : null;
}

/** The state of a fragment, or null if it is not one. */
export async function decode(fragment) {
  if (!fragment.startsWith("z")) return null;
  try {
    const packed = fromBase64(fragment.slice(1));
    const bytes = await through(packed, new DecompressionStream("deflate-raw"));
    const state = JSON.parse(new TextDecoder().decode(bytes));
    return typeof state.text === "string" ? state : null;
  } catch {
    return null;
  }
}

/** Sends bytes through a stream. A small link could become gigabytes, so the result is limited. */
async function through(bytes, stream) {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader();
  const chunks = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > LARGEST) {
      await reader.cancel();
      throw new Error("the state is too large");
    }
    chunks.push(value);
  }
  const all = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}

function toBase64(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function fromBase64(text) {
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (character) => character.charCodeAt(0));
}
