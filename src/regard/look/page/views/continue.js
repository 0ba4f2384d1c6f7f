// Continue: how likely each token was, what may come next, and other ways to go on.

view({
  name: 'continue',
  title: 'Continue',
  help: 'How the model goes on. Under each token stands the probability that the model gave it. Click on a candidate to append it, or on a token to see what else was likely there, and to take that instead.',
  fits: (own) => own.views.includes('continue'),
  draw: (root) => withText(root, drawContinue),
});

const going = {
  text: null, kept: null, ids: [], place: null, answer: null, before: [],
  count: 20, method: 'greedy', temperature: 0.8, top_p: 0.95, seed: 1,
};

/** A piece of text whose spaces can be seen. */
const goingName = (piece) => shown(piece.replace(/ /g, '␣'));

async function drawContinue(root) {
  if (going.text !== state.text) Object.assign(going, { text: state.text, kept: null, ids: [], place: null, answer: null, before: [] });
  const tokens = el('div', {}), likely = el('section', { id: 'likely', 'aria-live': 'polite' }), controls = el('div', {});

  /** Moves to these ids, or from them on by as many as are asked for. */
  let latest = 0;
  async function go(kept, ids, more = {}, focus = null) {
    const number = latest += 1, wanted = () => root.isConnected && number === latest; // else something else is on its way
    return trying(async () => {
      const answer = await ask('complete', { text: going.text, kept, ids, ...more });
      if (!wanted()) return;
      if (going.answer) going.before.push({ kept: going.kept, ids: going.ids, answer: going.answer });
      Object.assign(going, { kept, ids: answer.written, place: null, answer });
      draw(focus);
    }, 'Reading …', wanted);
  }

  const FIRST = '#candidates button'; // where one goes on from
  const take = (place, id) => {
    const { prompt, front } = going.answer;
    return place < prompt ? go(place - front, [id], {}, FIRST) : go(going.kept, [...going.ids.slice(0, place - prompt), id], {}, FIRST);
  };

  function back(to) {
    Object.assign(going, to, { place: null });
    draw();
  }

  function draw(focus) {
    const answer = going.answer;
    put(controls, goingControls(draw, () => go(going.kept, going.ids, {
      count: going.count, method: going.method,
      ...(going.method === 'sample' ? { temperature: going.temperature, top_p: going.top_p, seed: going.seed } : {}),
    }), back));
    put(tokens, goingTokens(answer, (place) => { going.place = going.place === place ? null : place; draw('#written [aria-pressed="true"]'); }), goingState(answer));
    put(likely, goingLikely(answer, take, () => { going.place = null; draw(FIRST); }));
    const reached = focus && root.querySelector(focus);
    if (reached) reached.focus();
  }

  put(root, controls, el('div', { class: 'split' }, tokens, likely));
  if (going.answer) draw();
  else await go(null, []);
}

function goingControls(draw, more, back) {
  const number = (label, name, least, most, step) => {
    const field = el('input', {
      type: 'number', class: 'figure', id: `go-${name}`, min: least, max: most, step, value: going[name],
      on: { change: () => { going[name] = Math.max(least, Math.min(most, Number(field.value) || least)); field.value = going[name]; } },
    });
    return el('label', {}, label, field);
  };
  const sampling = going.method === 'sample';
  return [
    el('div', { class: 'row' },
      el('button', { type: 'button', class: 'act', id: 'go-on', on: { click: more } }, 'Go on'),
      number('by', 'count', 1, 200, 1), 'tokens:',
      choice('', [['greedy', 'the likeliest each time'], ['sample', 'a sample']], going.method, (method) => { going.method = method; draw('#go-method'); }, { id: 'go-method', 'aria-label': 'how' }),
      sampling ? [number('temperature', 'temperature', 0.1, 5, 0.1), number('top-p', 'top_p', 0.05, 1, 0.05), number('seed', 'seed', 0, 1e9, 1)] : null),
    el('div', { class: 'row after' },
      el('button', { type: 'button', class: 'quiet', id: 'undo', disabled: !going.before.length, on: { click: () => back(going.before.pop()) } }, 'Undo'),
      el('button', { type: 'button', class: 'quiet', id: 'over', disabled: !going.before.length, on: { click: () => { const [first] = going.before; going.before = []; back(first); } } }, 'Start over')),
  ];
}

/** All tokens, each with its probability; those of the text stand before a line. */
function goingTokens(answer, choose) {
  const chances = numbers(answer.chances);
  const chips = answer.tokens.map((number, place) => {
    const name = answer.names[number], first = place === 0;
    return shareChip({
      name: name.trim() ? name : goingName(name), share: first ? 0 : chances[place], special: place < answer.front, pressed: first ? undefined : place === going.place,
      note: first ? '' : sharePercent(chances[place]), data: { 'data-place': place },
      label: first ? null : `“${goingName(name)}”: ${sharePercent(chances[place])}, rank ${answer.ranks[place]}`,
      click: first ? null : () => choose(place),
    });
  });
  if (answer.written.length) chips.splice(answer.prompt, 0, el('span', { class: 'wrote', role: 'separator', 'aria-label': 'what was written follows' }));
  const buttons = chips.filter((chip) => chip.tagName === 'BUTTON');
  return shareArrows(el('div', { class: 'tokens pieces', id: 'written' }, chips), buttons.findIndex((each) => Number(each.dataset.place) === going.place));
}

function goingState(answer) {
  return [
    el('p', { class: 'faint', id: 'room' }, [
      answer.ended ? 'The model ended the text here.' : '',
      answer.room > 0 ? `Room for ${answer.room.toLocaleString('en')} more tokens.` : 'The context is full.'].join(' ').trim()),
    answer.written.length ? [el('h3', {}, 'As a text'), el('p', { id: 'whole', class: 'plain' }, answer.text)] : null,
  ];
}

/** What may come at a place; at the end, unless a token is chosen. */
function goingLikely(answer, take, leave) {
  const end = answer.tokens.length, place = going.place === null ? end : going.place;
  const width = answer.likely[place].length, shares = numbers(answer.shares).subarray(place * width, (place + 1) * width);
  const rows = answer.likely[place].map((number, i) => ({
    name: goingName(answer.names[number]), share: shares[i], closed: answer.closed[number], id: answer.ids[number],
    data: { 'data-id': answer.ids[number], class: place < end && answer.tokens[place] === number ? 'chosen' : null },
  }));
  const own = place < end && answer.names[answer.tokens[place]];
  return [
    el('h3', {}, place < end ? `In place of “${goingName(own)}”` : 'What comes next'),
    place < end ? el('p', { class: 'row' },
      el('span', { class: 'faint' }, `It had ${sharePercent(numbers(answer.chances)[place])}, rank ${answer.ranks[place].toLocaleString('en')}.`),
      el('button', { type: 'button', class: 'quiet', id: 'leave', on: { click: leave } }, 'Back to the end')) : null,
    shareTable(rows, (row) => take(place, row.id), 'candidates'),
    rows.some((row) => row.closed) ? el('p', { class: 'faint' }, 'Special tokens are not written here.') : null,
  ];
}
