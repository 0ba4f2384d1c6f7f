// What every view of the explorer needs: what is chosen, questions, and numbers.

const state = {
  view: '', text: '', second: null, to: null, draft: null,
  place: '', layer: 0, head: 0, query: 0,
  words: false, specials: true, mode: 'lines',
};
let about = null;

let recorded = null; // the answers that a saved page carries
const answers = new Map();
const MOST_ANSWERS = 60;

function spelled(question, given) {
  const own = {};
  for (const name of Object.keys(given).sort()) {
    if (given[name] !== null && given[name] !== undefined) own[name] = given[name];
  }
  return `${question} ${JSON.stringify(own)}`;
}

/** The answer to a question; one that was asked before is remembered. */
function ask(question, given = {}) {
  const key = spelled(question, given);
  if (answers.has(key)) {
    const found = answers.get(key);
    answers.delete(key);
    answers.set(key, found);
    return found;
  }
  const found = recorded ? fromPage(key) : fromServer(question, given);
  answers.set(key, found);
  found.catch(() => answers.delete(key));
  if (answers.size > MOST_ANSWERS) answers.delete(answers.keys().next().value);
  return found;
}

async function fromPage(key) {
  const answer = Object.hasOwn(recorded, key) ? recorded[key] : null;
  if (answer && !answer.refused) return answer;
  throw new Refused(answer ? answer.refused : 'This page was saved with the answers for its own texts. For others, start: regard look MODEL');
}

async function fromServer(question, given) {
  let reply, answer;
  try {
    reply = await fetch(`ask/${question}`, {
      method: 'POST', headers: { 'Content-Type': 'application/json', ...keyHeader() }, body: JSON.stringify(given),
    });
    answer = await reply.json();
  } catch {
    throw new Refused('The explorer does not answer: is "regard look" or "regard serve" still running?');
  }
  if (!reply.ok) throw new Refused(answer.refused);
  if (answer.warned) warned = answer.warned.join(' ');
  return answer;
}

/** Numbers as the server spells them: a format, a colon, base 64. Whole ones are shares of their largest. */
function numbers(text) {
  const raw = atob(text.slice(3));
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  switch (text.slice(0, 2)) {
    case 'u1': return sharesOf(bytes, 255);
    case 'u2': return sharesOf(new Uint16Array(bytes.buffer), 65535);
    case 'f4': return new Float32Array(bytes.buffer);
    case 'f2': return Float32Array.from(new Uint16Array(bytes.buffer), half);
    default: throw new Error(`numbers in an unknown format: ${text.slice(0, 3)}`);
  }
}

function sharesOf(whole, most) {
  const found = new Float32Array(whole.length);
  for (let i = 0; i < whole.length; i++) found[i] = whole[i] / most; // a head can be a million of them
  return found;
}

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, part = bits & 1023;
  if (exponent === 0) return sign * part * 2 ** -24;
  return exponent === 31 ? (part ? NaN : sign * Infinity) : sign * (1 + part / 1024) * 2 ** (exponent - 15);
}

const layerName = (layer) => (layer === 0 ? 'embedding' : `layer ${layer}`);
