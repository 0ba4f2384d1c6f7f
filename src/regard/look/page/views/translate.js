// Translate: a text and its translation, which word came from which, the beam as a tree, and other ways to go on.

view({
  name: 'translate',
  title: 'Translate',
  help: 'Type, and the translation appears. Point at a word, on either side, to see what it came from or became. Click a word of the translation for other ways to go on from there.',
  fits: (own) => own.views.includes('translate'),
  draw: drawTranslate,
});

const translating = {
  beam: null, // null: the model's own
  choices: [], // what was put in place of words, one after the other: { prefix, word }
  word: null, // the word of the translation whose alternatives are open
  of: '', // the text and language that these belong to
  asked: 0, // the latest question: answers to earlier ones come too late
};
const TYPING_PAUSE = 300; // milliseconds without a key before a text is taken as typed

const translateGiven = () => ({
  text: state.text, to: state.to, beam: translating.beam, prefix: translating.choices.at(-1)?.prefix,
});

function drawTranslate(root) {
  const below = el('div', { id: 'translated' });
  const saved = recorded ? recorded.texts.texts : [];
  const text = el('textarea', {
    id: 'text', dir: 'auto', rows: 2, value: state.draft ?? state.text, spellcheck: 'false', maxlength: about.characters, readonly: saved.length === 1,
  });
  let waiting = 0;
  const take = () => {
    clearTimeout(waiting);
    if (!root.isConnected) return;
    if (text.value !== state.text) Object.assign(state, { text: text.value, second: null, query: 0 });
    state.draft = null;
    show();
  };
  text.addEventListener('input', () => {
    state.draft = text.value;
    clearTimeout(waiting);
    waiting = setTimeout(take, TYPING_PAUSE);
  });
  text.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.shiftKey && !saved.length) { event.preventDefault(); take(); }
  });
  const wide = slider('Beam', 1, 8, translating.beam ?? 5, (beam) => {
    Object.assign(translating, { beam, word: null });
    clearTimeout(waiting);
    waiting = setTimeout(take, TYPING_PAUSE / 2);
  }, { id: 'beam', disabled: saved.length > 0 });

  async function show() {
    const number = ++translating.asked, of = JSON.stringify([state.text, state.to]);
    if (of !== translating.of) Object.assign(translating, { of, choices: [], word: null });
    remember();
    if (!state.text.trim()) {
      put(below, el('p', { class: 'faint' }, 'The translation will appear here.'));
      below.removeAttribute('aria-busy');
      say('');
      return;
    }
    below.setAttribute('aria-busy', 'true');
    await trying(async () => {
      try {
        const found = await ask('translate', translateGiven());
        if (number !== translating.asked || !root.isConnected) return;
        wide.querySelector('input').value = found.beam;
        wide.querySelector('output').textContent = found.beam;
        say('');
        drawTranslated(below, found, show);
      } catch (error) {
        if (number !== translating.asked) return; // whatever was wrong with it, it is not asked any more
        put(below);
        throw error;
      } finally {
        if (number === translating.asked) below.removeAttribute('aria-busy');
      }
    });
  }

  put(root,
    el('form', { on: { submit: (event) => event.preventDefault() } },
      saved.length > 1
        ? choice('Text', saved.map((each, i) => [i, each.text]), saved.findIndex((each) => each.text === state.text && each.to === state.to),
          (i) => { Object.assign(state, saved[i]); show(); }, { id: 'texts' })
        : el('label', { class: 'wide' }, 'Text', text),
      el('div', { class: 'row' },
        saved.length ? null : languages(show), wide,
        el('span', { class: 'faint' }, saved.length ? 'This page was saved: it shows the answers it carries.' : 'Wider beams follow more translations side by side.'))),
    below);
  if (state.draft === null) show();
  else take(); // it was typed just before the view was drawn again
}

function drawTranslated(root, found, show) {
  const others = el('section', { id: 'others', 'aria-label': 'Other ways', 'aria-live': 'polite' });
  const readout = el('section', { id: 'aligned', 'aria-label': 'Alignment', 'aria-live': 'polite' });
  const pair = drawTranslatePair(found, readout, (word) => {
    translating.word = word;
    drawOtherWays(others, found, show, pair);
  });
  const tree = drawBeamTree(found);
  put(root, translateChoices(show), pair.card, el('div', { class: 'split' }, readout, others),
    el('h2', {}, found.beam > 1 ? 'The beam' : 'Greedy search'),
    el('p', { class: 'faint' }, found.beam > 1
      ? `Time goes right. In each column stand the ${found.beam} hypotheses that were kept and those that ended, the best on top. The thick line leads to the translation; dashed ones were left behind. A dot marks what goes on inside a word. Arrow keys walk along.`
      : 'Time goes right. A beam of one takes the likeliest token each time. Arrow keys walk along.'),
    tree.box, tree.readout, translateBest(found, tree.light));
  pair.ready();
  if (translating.word !== null && translating.word < found.target.words.length) drawOtherWays(others, found, show, pair);
  else put(others, el('h3', {}, 'Other ways'), el('p', { class: 'faint' }, 'Click a word of the translation.'));
}

/** What was chosen instead of the model's words, and the way back. */
function translateChoices(show) {
  const { choices } = translating;
  if (!choices.length) return null;
  const back = (count, name, id) => el('button', {
    type: 'button', class: 'quiet', id,
    on: { click: () => { choices.length = count; translating.word = null; show(); } },
  }, name);
  return el('p', { class: 'row tr-choices' },
    el('span', {}, 'You chose ', choices.map((each, i) => [i ? ', then ' : '', el('b', {}, `“${each.word}”`)]), '. The rest is translated anew.'),
    choices.length > 1 ? back(choices.length - 1, '← One step back', 'step-back') : null,
    back(0, '← The model’s own', 'back'));
}

// The two sentences

/** Black or white, whichever can be read on a colour. */
function inkUpon([r, g, b]) {
  const [x, y, z] = [r, g, b].map((each) => ((each / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * x + 0.7152 * y + 0.0722 * z > 0.18 ? '#000' : '#fff';
}

const NO_WEIGHT = '\u00a0'; // keeps the line where it is

function drawTranslatePair(found, readout, open) {
  const sides = { source: found.source, target: found.target };
  const weights = found.alignment === null ? null : numbers(found.alignment);
  const columns = found.source.words.length;
  /** How much a pair weighs: `at` on one side, `other` on the other. */
  const weight = (side, at, other) => (side === 'target' ? weights[at * columns + other] : weights[other * columns + at]);
  const across = { source: 'target', target: 'source' };
  const lines = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  lines.setAttribute('class', 'tr-ribbons');
  lines.setAttribute('aria-hidden', 'true');
  const buttons = {};
  const sentence = (side, name) => {
    const { words, tail } = sides[side];
    buttons[side] = words.map((word, i) => el('button', {
      type: 'button', class: `tr-word${i && !word.gap ? ' joined' : ''}${word.chosen ? ' chosen' : ''}${word.known === false ? ' unknown' : ''}`, tabindex: i ? -1 : 0, 'data-word': i,
      'aria-expanded': side === 'target' ? 'false' : null, title: word.known === false ? 'not in the model’s vocabulary' : null,
      on: {
        pointerenter: () => light(side, i), focus: () => light(side, i),
        click: () => { light(side, i); if (side === 'target') open(i); },
        keydown: (event) => walk(event, side, i),
      },
    }, el('span', { class: 'name' }, shown(word.word)), el('span', { class: 'weight number' }, NO_WEIGHT)));
    return el('div', { class: 'tr-sentence', id: side, role: 'group', 'aria-label': name, lang: side === 'target' && state.to ? state.to : null },
      words.map((word, i) => [el('span', { class: 'gap' }, word.gap), buttons[side][i]]), el('span', { class: 'gap' }, tail),
      words.length ? null : el('span', { class: 'faint' }, tail ? '' : 'The model writes nothing.'));
  };
  const best = found.best[0];
  const card = el('section', { class: 'tr-pair', 'aria-label': 'Text and translation', on: { pointerleave: rest } }, lines,
    sentence('source', 'Text'), sentence('target', 'Translation'),
    el('p', { class: 'faint tr-verdict number' },
      [`probability ${probable(Math.exp(best.score))}`, `log ${fixed(best.score, 2)}`, best.finished ? null : 'stopped at its maximum length, unfinished',
        found.forced ? `${found.forced} ${found.forced === 1 ? 'token' : 'tokens'} given` : null].filter((each) => each).join(' · ')));

  function walk(event, side, at) {
    const own = buttons[side], other = across[side];
    let to = { ArrowLeft: own[at - 1], ArrowRight: own[at + 1], Home: own[0], End: own.at(-1) }[event.key];
    if (event.key === (side === 'source' ? 'ArrowDown' : 'ArrowUp')) to = buttons[other][weights ? heaviestOf(side, at)[0] ?? 0 : 0];
    if (!to) return;
    event.preventDefault();
    to.focus();
  }

  const heaviestOf = (side, at) => sides[across[side]].words.map((_, i) => i).sort((a, b) => weight(side, at, b) - weight(side, at, a));

  function clear() {
    for (const button of [...buttons.source, ...buttons.target]) {
      button.classList.remove('lit', 'asking');
      button.style.background = button.style.color = '';
      button.lastChild.textContent = NO_WEIGHT;
    }
  }

  function rest() {
    if (card.contains(document.activeElement)) return;
    clear();
    ribbons();
  }

  function light(side, at) {
    clear();
    const own = buttons[side][at];
    for (const button of buttons[side]) button.tabIndex = button === own ? 0 : -1;
    own.classList.add('asking');
    if (weights) {
      buttons[across[side]].forEach((button, i) => {
        const share = weight(side, at, i);
        if (share < 0.01) return;
        const paint = colour(0.85 * share);
        button.classList.add('lit');
        button.style.background = css(paint);
        button.style.color = inkUpon(paint);
        button.lastChild.textContent = `${Math.round(100 * share)}%`;
      });
    }
    ribbons(side, at);
    tell(side, at);
  }

  function tell(side, at) {
    const word = sides[side].words[at], other = sides[across[side]].words;
    const rows = weights ? heaviestOf(side, at).filter((i) => weight(side, at, i) >= 0.005).slice(0, 6) : [];
    put(readout,
      el('h3', {}, side === 'target' ? `“${shown(word.word)}” came from` : `“${shown(word.word)}” was looked at for`),
      weights ? el('div', { class: 'scroll' }, el('table', {}, el('tbody', {}, rows.map((i) => el('tr', { 'data-word': i },
        el('td', {}, shown(other[i].word)), el('td', { class: 'number' }, fixed(weight(side, at, i))), el('td', { class: 'bars' }, bar(weight(side, at, i)))))))) : el('p', {}, WITHOUT_ATTENTION),
      weights && !rows.length ? el('p', { class: 'faint' }, 'Nothing.') : null,
      word.known === false ? el('p', { class: 'faint' }, 'The model does not know this word: it read a mark for something unknown.') : null,
      side === 'target' ? el('p', { class: 'faint' }, `Written with probability ${probable(word.probability)}, given what stands before it.`) : null);
  }

  /** Lines between words that belong together, those of one word strong. */
  function ribbons(side = null, at = null) {
    lines.replaceChildren();
    if (!weights) return;
    const frame = card.getBoundingClientRect();
    lines.setAttribute('viewBox', `0 0 ${frame.width} ${frame.height}`);
    const places = (list, edge) => list.map((button) => {
      const box = button.getBoundingClientRect();
      return [box.left + box.width / 2 - frame.left, box[edge] - frame.top];
    });
    const from = places(buttons.source, 'bottom'), to = places(buttons.target, 'top');
    const plain = [from, to].every((side) => side.every(([, y]) => Math.abs(y - side[0][1]) < 4)); // lines that cross no words
    found.target.words.forEach((_, i) => found.source.words.forEach((__, j) => {
      const share = weights[i * columns + j];
      const chosen = side !== null && at === (side === 'target' ? i : j);
      if (share < (chosen ? 0.01 : 0.12) || !(chosen || plain)) return;
      const line = document.createElementNS('http://www.w3.org/2000/svg', 'path');
      const [[x1, y1], [x2, y2]] = [from[j], to[i]], middle = (y1 + y2) / 2;
      line.setAttribute('d', `M${x1},${y1} C${x1},${middle} ${x2},${middle} ${x2},${y2}`);
      line.setAttribute('class', chosen ? 'chosen' : '');
      line.style.strokeWidth = `${1 + 7 * share}px`;
      line.style.opacity = chosen ? 0.35 + 0.65 * share : (side === null ? 0.1 + 0.45 * share : 0.06 + 0.1 * share);
      lines.append(line);
    }));
  }

  return {
    card,
    ready: () => {
      ribbons();
      put(readout, el('h3', {}, 'Alignment'), el('p', { class: 'faint' }, weights ? 'Point at a word.' : WITHOUT_ATTENTION));
    },
    mark: (word) => buttons.target.forEach((button, i) => button.setAttribute('aria-expanded', String(i === word))),
  };
}

const WITHOUT_ATTENTION = 'This model’s decoder has no attention: it writes from one summary of the text, so nothing tells which word came from which.';

// Other ways

async function drawOtherWays(root, found, show, pair) {
  const { word } = translating;
  pair.mark(word);
  const name = found.target.words[word].word;
  const close = el('button', { type: 'button', class: 'quiet', id: 'close', on: { click: () => {
    translating.word = null;
    pair.mark(null);
    put(root, el('h3', {}, 'Other ways'), el('p', { class: 'faint' }, 'Click a word of the translation.'));
  } } }, 'close');
  const head = el('div', { class: 'row' }, el('h3', {}, `Instead of “${shown(name)}”`), close);
  put(root, head, el('p', { class: 'faint' }, 'Looking …'));
  const late = () => translating.word !== word || !root.isConnected;
  let answer;
  try {
    answer = await ask('alternatives', { ...translateGiven(), word });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (!late()) put(root, head, el('p', {}, error.message));
    return;
  }
  if (late()) return;
  const most = Math.max(answer.probability, ...answer.others.map((each) => each.probability));
  const row = (share) => [el('span', { class: 'number chance' }, probable(share)), el('span', { class: 'bars' }, bar(share, most))];
  put(root, head,
    el('p', { class: 'faint' }, 'How likely each beginning is there, and what the whole becomes. Click one to take it.'),
    el('ol', { class: 'tr-others' },
      el('li', {}, el('div', { class: 'tr-other own' }, row(answer.probability), el('span', { class: 'whole' }, el('b', {}, shown(answer.word)), el('span', { class: 'faint' }, ' stands there now')))),
      answer.others.map((each) => el('li', {}, el('button', {
        type: 'button', class: 'tr-other', on: { click: () => take(each) },
      }, row(each.probability), el('span', { class: 'whole' }, each.before, el('b', {}, each.word), each.after, each.finished ? null : el('span', { class: 'faint' }, ' (unfinished)')))))),
    answer.others.length ? null : el('p', {}, 'There is no other way here.'));

  async function take(each) {
    translating.choices.push({ prefix: each.prefix, word: each.word });
    translating.word = null;
    await show();
    document.getElementById('back')?.focus();
  }
}

// The beam

const BEAM_ROW = 46, BEAM_GAP = 26, BEAM_WIDEST = 150;

/** The spelling of a node; what goes on inside a word begins with a dot. */
function beamName(node, parent) {
  if (node.end) return node.place === 0 ? '★ end' : 'end';
  if (!node.token.trim()) return '␣';
  return parent && /^[\p{L}\p{N}]/u.test(node.token) && !/[\s▁]$/u.test(parent.token) ? `·${shown(node.token)}` : shown(node.token.trim());
}

function drawBeamTree(found) {
  const nodes = found.tree.map((node, at) => ({ ...node, at, best: false, leads: false, children: [] }));
  const lineage = (at) => { const line = []; for (; at >= 0; at = nodes[at].parent) line.unshift(at); return line; };
  for (const node of nodes) {
    if (node.parent >= 0) nodes[node.parent].children.push(node.at);
    if (node.place === undefined) continue;
    for (const at of lineage(node.at)) { nodes[at].leads = true; nodes[at].best ||= node.place === 0; }
  }
  const said = (at) => lineage(at).map((each) => nodes[each].token).join('').trim();

  const pen = document.createElement('canvas').getContext('2d');
  pen.font = '600 15px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif';
  const times = [];
  for (const node of nodes) (times[node.time] ||= []).push(node);
  let x = 22, height = 0;
  for (const column of times) {
    const width = Math.min(BEAM_WIDEST, Math.max(44, ...column.map((node) => Math.ceil(pen.measureText(beamName(node, nodes[node.parent])).width) + 20)));
    column.forEach((node, row) => Object.assign(node, { x, width, y: 26 + BEAM_ROW * row, row }));
    height = Math.max(height, 26 + BEAM_ROW * column.length);
    x += width + BEAM_GAP;
  }

  const lines = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  lines.setAttribute('aria-hidden', 'true');
  lines.setAttribute('width', x);
  lines.setAttribute('height', height);
  const kind = (node) => (node.best ? 'best' : node.leads ? '' : 'lost');
  const middle = (node) => node.y + (BEAM_ROW - 8) / 2;
  const path = (node) => {
    const parent = nodes[node.parent];
    const [x1, y1, x2, y2] = [parent ? parent.x + parent.width : 6, parent ? middle(parent) : middle(nodes[0]), node.x, middle(node)];
    const line = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    line.setAttribute('d', `M${x1},${y1} C${(x1 + x2) / 2},${y1} ${(x1 + x2) / 2},${y2} ${x2},${y2}`);
    line.setAttribute('class', kind(node));
    return line;
  };
  const edges = nodes.map(path);
  lines.append(...edges.filter((_, i) => !nodes[i].best), ...edges.filter((_, i) => nodes[i].best)); // the best on top

  const readout = el('p', { id: 'node', class: 'number', 'aria-live': 'polite' });
  const idle = () => put(readout, el('span', { class: 'faint' }, 'Point at a token for its scores.'));
  const buttons = nodes.map((node) => el('button', {
    type: 'button', class: ['tr-node', kind(node), node.end ? 'end' : '', node.at < found.forced ? 'forced' : ''].filter((each) => each).join(' '),
    tabindex: node.at ? -1 : 0, 'data-node': node.at, 'aria-label': describe(node),
    style: { left: `${node.x}px`, top: `${node.y}px`, width: `${node.width}px` },
    on: { pointerenter: () => light(node.at), focus: () => light(node.at), click: () => light(node.at), keydown: (event) => walk(event, node) },
  }, el('span', { class: 'name' }, beamName(node, nodes[node.parent])), el('span', { class: 'weight' }, probable(Math.exp(node.step)))));
  const marks = times.map((column, time) => el('span', { class: 'faint time', 'aria-hidden': 'true', style: { left: `${column[0].x}px`, width: `${column[0].width}px` } }, String(time + 1)));

  function describe(node) {
    const parts = [node.end ? `“${said(node.at)}” ends` : `“${said(node.at)}”`,
      `${node.end ? 'the end' : `“${node.token.trim()}”`} has probability ${probable(Math.exp(node.step))} (log ${fixed(node.step, 3)})`,
      `total ${fixed(node.total, 3)}`];
    if (node.at < found.forced) parts.push('given');
    if (node.place !== undefined) parts.push(`number ${node.place + 1} of the list, ranked by ${fixed(found.best[node.place].ranking, 3)}`);
    else if (node.end) parts.push('behind those in the list');
    else if (!node.leads) parts.push('left behind');
    return parts.join('; ');
  }

  function light(at) {
    const own = new Set(at === null ? [] : lineage(at));
    buttons.forEach((button, i) => button.classList.toggle('lit', own.has(i)));
    edges.forEach((edge, i) => edge.classList.toggle('lit', own.has(i)));
    if (at === null) return idle();
    buttons.forEach((button, i) => { button.tabIndex = i === at ? 0 : -1; });
    return put(readout, describe(nodes[at]));
  }

  function walk(event, node) {
    const column = times[node.time];
    const after = node.children.find((each) => nodes[each].best) ?? node.children.find((each) => nodes[each].leads) ?? node.children[0];
    const to = { ArrowLeft: node.parent, ArrowRight: after, ArrowUp: column[node.row - 1]?.at, ArrowDown: column[node.row + 1]?.at }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    buttons[to]?.focus();
  }

  idle();
  const box = el('div', { class: 'scroll tr-beam', role: 'group', 'aria-label': 'The search, token by token', on: { pointerleave: () => { if (!box.contains(document.activeElement)) light(null); } } },
    el('div', { class: 'sheet', style: { width: `${x}px`, height: `${height}px` } }, lines, marks, buttons));
  const last = (place) => nodes.findIndex((node) => node.place === place);
  return { box, readout, light: (place) => light(place === null ? null : last(place)) };
}

/** The translations that the search found, the best first; what differs from it stands out. */
function translateBest(found, light) {
  const head = (name, kind, title) => el('th', { class: kind, title, scope: 'col' }, name);
  return el('div', { class: 'scroll' }, el('table', { id: 'best' },
    el('thead', {}, el('tr', {}, head('', 'number'), head('translation'), head('log-probability', 'number'), head('ranked by', 'number', 'the score of what was searched for, with the length penalty'))),
    el('tbody', {}, found.best.map((each, i) => el('tr', { on: { pointerenter: () => light(i), pointerleave: () => light(null) } },
      el('td', { class: 'number' }, `${i + 1}`),
      el('td', {}, i ? differing(each.text, found.best[0].text) : [el('b', { 'aria-label': 'best' }, '★ '), each.text], each.finished ? null : el('span', { class: 'faint' }, ' (unfinished)')),
      el('td', { class: 'number' }, fixed(each.score)), el('td', { class: 'number' }, fixed(each.ranking)))))));
}
