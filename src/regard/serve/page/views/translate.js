// Translate: as you type. Words that belong together light up, and other translations are a click away.

view({
  name: 'translate',
  title: 'Translate',
  help: 'Type, and the translation appears. Point at a word to see what it came from. Click one for other translations.',
  task: 'translate',
  carries: () => ({ text: translating.text }),
  draw: drawTranslate,
});

const MOST_TRANSLATIONS = 5, MOST_INSTEAD = 4;
const translating = {
  pair: 0, // which of the pairs of languages
  text: '', // as it was typed
  source: null, // the text that was translated
  every: [], // its translations: { text, confidence, finished, of }, where `of` is the result that it is part of
  chosen: 0, // which of them is shown
  word: null, // the word of it that other ways are shown for
  without: new Set(), // words without which it was translated too
};

const noTranslation = () => Object.assign(translating, { source: null, every: [], chosen: 0, word: null, without: new Set() });

const sameLanguage = (one, other) => one && other && one.split(/[-_]/)[0].toLowerCase() === other.split(/[-_]/)[0].toLowerCase();

function languageName(code) {
  try {
    return new Intl.DisplayNames(['en'], { type: 'language' }).of(code.replace('_', '-'));
  } catch {
    return code;
  }
}

function drawTranslate(root) {
  const { pairs } = about, pair = pairs[translating.pair] ?? pairs[0];
  const mirror = el('div', { class: 'mirror', 'aria-hidden': 'true' });
  const text = el('textarea', { id: 'text', dir: 'auto', value: translating.text, spellcheck: 'false', 'aria-label': 'Text', maxlength: about.limits.characters,
    placeholder: 'Write or paste a text.', lang: pair.source });
  const result = results('Translation', 'translation'), ways = el('section', { id: 'ways', 'aria-label': 'Other translations', 'aria-live': 'polite' });
  const count = el('span', { class: 'faint number', id: 'count' });
  const words = { source: [], target: [] };

  /** The text once more, behind the field: it gives the field its height, and its words light up. */
  function reflect() {
    const { words: own, tail } = wordsOf(text.value);
    words.source = own.map(({ word }, i) => el('span', { 'data-word': i }, word));
    put(mirror, own.map(({ gap }, i) => [gap, words.source[i]]), `${tail}\u200b`);
    count.textContent = text.value ? `${characters(text.value).length.toLocaleString('en')} characters` : '';
  }

  function take() {
    translating.text = text.value;
    if (!text.value.trim()) { noTranslation(); draw(); return; }
    result.run(async (how) => {
      const every = await translations({ n_best: Math.min(MOST_TRANSLATIONS, about.limits.alternatives) }, how);
      return () => {
        Object.assign(noTranslation(), { every, source: every[0].of.source });
        drawWays();
        return drawWords();
      };
    });
  }

  async function translations(given, how) {
    const { results: [of] } = await ask('v1/translate', { model: pair.model, texts: [translating.text], source: pair.source, target: pair.target, align: pair.aligns, ...given }, how);
    return (of.alternatives ?? [of]).map(({ text: written, confidence, finished }) => ({ text: written, confidence, finished, of }));
  }

  function draw() {
    result.show(translating.every.length ? drawWords() : el('p', { class: 'faint' }, 'The translation will appear here.'));
    drawWays();
  }

  /** Lights a word and those it belongs to, on both sides; none for null. */
  function light(side, at, links) {
    const linked = at === null ? [] : links.filter((link) => link[side === 'source' ? 0 : 1] === at);
    const lit = { source: new Set(linked.map(([from]) => from)), target: new Set(linked.map(([, to]) => to)) };
    if (at !== null) lit[side].add(at);
    for (const name of ['source', 'target']) words[name].forEach((each, i) => each.classList.toggle('lit', lit[name].has(i)));
  }

  function drawWords() {
    const one = translating.every[translating.chosen], { of } = one;
    const { words: own, tail } = wordsOf(one.text), links = linksOf(of, one.text);
    const dim = () => light('target', null, links);
    words.target = own.map(({ word }, i) => el('button', {
      type: 'button', class: 'word', 'data-word': i, 'aria-pressed': String(translating.word === i),
      on: { pointerenter: () => light('target', i, links), pointerleave: dim, focus: () => light('target', i, links), blur: dim, click: () => instead(i) },
    }, word));
    listen(links);
    return [
      shareArrows(el('p', { class: 'words', dir: 'auto', lang: pair.target }, own.map(({ gap }, i) => [gap, words.target[i]]), tail), translating.word ?? 0),
      el('div', { class: 'row faint number verdict' },
        el('span', { title: 'how good such translations are on average (chrF); of models that have not learned that, the mean probability of a token' }, `confidence ${percent(one.confidence)}`),
        of.unknown ? el('span', {}, of.unknown === 1 ? 'one token is unknown to the model' : `${of.unknown} tokens are unknown to the model`) : null,
        one.finished ? null : el('span', {}, 'stopped at its maximum length, unfinished'),
        translating.chosen ? el('button', { type: 'button', class: 'quiet', id: 'back', on: { click: () => pick(0) } }, '← the model’s own') : null,
        copyButton(one.text)),
    ];
  }

  /** Words of the text light up where the pointer is, or where keys move the caret to. */
  function listen(links) {
    const show = (at) => light('source', at >= 0 && text.value === translating.source ? at : null, links);
    text.onpointermove = ({ clientX, clientY }) => show(words.source.indexOf(document.elementsFromPoint(clientX, clientY).find((each) => each.parentElement === mirror)));
    text.onpointerleave = text.onblur = () => show(-1);
    text.onkeyup = ({ key }) => {
      if (/^(Arrow|Home|End|Page)/.test(key)) show(wordsOf(text.value).words.findIndex(({ start, end }) => start <= text.selectionStart && text.selectionStart <= end));
    };
  }

  /** Other ways for a word of the translation: those that are there, and those that come without it. */
  async function instead(at) {
    translating.word = translating.word === at ? null : at;
    words.target.forEach((each, i) => each.setAttribute('aria-pressed', String(i === translating.word)));
    drawWays();
    const word = words.target[at].textContent.match(/[\p{L}\p{N}][\p{L}\p{N}’'-]*/u)?.[0];
    const { source, without } = translating;
    if (translating.word === null || !word || without.has(word)) return;
    without.add(word);
    try {
      const found = await translations({ n_best: Math.min(MOST_INSTEAD, about.limits.alternatives), suppressed: [word] }, {});
      if (source !== translating.source || !root.isConnected) return;
      translating.every.push(...found.filter((each) => !translating.every.some((other) => other.text === each.text)));
      drawWays();
    } catch (error) {
      if (!(error instanceof Refused)) throw error; // the word is no token of its own: what is there has to do
    }
  }

  function pick(i) {
    Object.assign(translating, { chosen: i, word: null });
    draw();
    result.body.querySelector('.word')?.focus();
  }

  /** The other translations; of a word that was clicked, those that have something else there. */
  function drawWays() {
    const { every, chosen, word } = translating;
    if (!every.length) { put(ways); return; }
    const shownWords = wordsOf(every[chosen].text).words.map((each) => each.word);
    const hasIt = (other) => commonWords(shownWords, wordsOf(other).words.map((each) => each.word)).some(([at]) => at === word);
    const others = every.map((each, i) => ({ ...each, i })).filter((each) => each.i !== chosen && (word === null ? each.of === every[0].of : !hasIt(each.text)));
    put(ways,
      el('div', { class: 'row' }, el('h2', {}, word === null ? 'Other translations' : `Instead of “${shownWords[word]}”`),
        word === null ? null : el('button', { type: 'button', class: 'quiet', id: 'all', on: { click: () => { translating.word = null; draw(); } } }, 'show all')),
      others.length ? el('ol', { class: 'ways' }, others.map((each) => el('li', {}, el('button', { type: 'button', 'data-way': each.i, on: { click: () => pick(each.i) } },
        el('span', { class: 'number chance' }, percent(each.confidence)), el('span', { class: 'bars' }, bar(each.confidence)),
        el('span', { class: 'whole', dir: 'auto' }, differing(each.text, every[chosen].text))))))
        : el('p', { class: 'faint' }, word === null ? 'There is no other.' : 'None of the others has something else there.'));
  }

  const turn = (to) => { noTranslation().pair = to; redraw(); };
  const back = pairs.findIndex((each) => sameLanguage(each.source, pair.target) && sameLanguage(each.target, pair.source));
  const swap = el('button', { type: 'button', class: 'quiet swap', id: 'swap', 'aria-label': 'Swap the languages', title: back < 0 ? 'no model translates back' : 'swap', disabled: back < 0, on: { click: () => {
    if (translating.every.length) translating.text = translating.every[translating.chosen].text;
    turn(back);
  } } }, '⇄');
  text.addEventListener('input', reflect);
  whenTyped(text, take);
  put(root,
    el('div', { class: 'pair' },
      el('section', { class: 'pane', 'aria-label': 'Text' },
        el('div', { class: 'row head' }, fromChoice(pairs, pair, turn), swap),
        el('div', { class: 'written' }, mirror, text),
        el('div', { class: 'row foot' }, count, documentButton(pair, ways))),
      el('section', { class: 'pane', 'aria-label': 'Translation' },
        el('div', { class: 'row head' }, toChoice(pairs, pair, turn)),
        result.root)),
    ways);
  reflect();
  draw();
  if (translating.text !== (translating.source ?? '')) take(); // it was typed just before the view was drawn again
}

function copyButton(text) {
  if (!navigator.clipboard) return null; // browsers have it on this machine and with HTTPS
  const button = el('button', { type: 'button', class: 'quiet', id: 'copy', on: { click: async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = 'copied';
    setTimeout(() => { button.textContent = 'copy'; }, 1500);
  } } }, 'copy');
  return button;
}

function fromChoice(pairs, pair, turn) {
  const names = [...new Set(pairs.map((each) => each.source))], name = (code) => (code ? languageName(code) : 'Any language');
  if (names.length === 1) return el('h2', {}, pair.source || pairs.some((each) => each.target) ? name(pair.source) : 'Text');
  return choice('From', names.map((code) => [code ?? '', name(code)]), pair.source ?? '', (code) => {
    const same = pairs.findIndex((each) => (each.source ?? '') === code && each.target === pair.target);
    turn(same >= 0 ? same : pairs.findIndex((each) => (each.source ?? '') === code));
  }, { id: 'from' });
}

function toChoice(pairs, pair, turn) {
  const own = pairs.map((each, i) => ({ ...each, i })).filter((each) => each.source === pair.source);
  const name = (each) => {
    if (!each.target) return each.model;
    return own.some((other) => other.i !== each.i && other.target === each.target) ? `${languageName(each.target)} (${each.model})` : languageName(each.target);
  };
  if (own.length === 1) return el('h2', {}, own[0].target ? languageName(own[0].target) : 'Translation');
  return choice('To', own.map((each) => [each.i, name(each)]), pairs.indexOf(pair), (i) => turn(Number(i)), { id: 'to' });
}

// Words of two translations

/** Pairs of places of the words that two lists have in common, in order: as many as can be. */
function commonWords(one, other) {
  const width = other.length + 1;
  if (one.length * width > 4e6) return commonEnds(one, other);
  const most = new Uint16Array((one.length + 1) * width);
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      most[i * width + j] = one[i] === other[j] ? most[(i + 1) * width + j + 1] + 1 : Math.max(most[(i + 1) * width + j], most[i * width + j + 1]);
    }
  }
  const found = [];
  for (let i = 0, j = 0; i < one.length && j < other.length;) {
    if (one[i] === other[j]) found.push([i++, j++]);
    else if (most[(i + 1) * width + j] >= most[i * width + j + 1]) i += 1;
    else j += 1;
  }
  return found;
}

/** The same for long texts: their beginnings and ends only. */
function commonEnds(one, other) {
  const found = [], fewer = Math.min(one.length, other.length);
  let before = 0, after = 0;
  while (before < fewer && one[before] === other[before]) { found.push([before, before]); before += 1; }
  while (after < fewer - before && one.at(-1 - after) === other.at(-1 - after)) after += 1;
  for (let i = after; i > 0; i--) found.push([one.length - i, other.length - i]);
  return found;
}

/** Which words belong together. The service tells it of its best translation: another shares the links of the words
    it has in common with that, and what stands in place of others is linked as those are. */
function linksOf(found, text) {
  const links = found.alignment ?? [];
  if (text === found.text || !links.length) return links;
  const best = wordsOf(found.text).words.map((each) => each.word), own = wordsOf(text).words.map((each) => each.word);
  const moved = [];
  const link = (places, at) => { for (const [from, to] of links) if (places(to)) moved.push([from, at]); };
  let i = 0, j = 0;
  for (const [to, at] of [...commonWords(best, own), [best.length, own.length]]) {
    const [first, last] = [i, to];
    for (; j < at; j++) link((place) => first <= place && place < last, j);
    if (at < own.length) link((place) => place === to, at);
    i = to + 1;
    j = at + 1;
  }
  return moved;
}
