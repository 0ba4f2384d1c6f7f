// Answer: the text that a question is about, with where an answer is likely to begin and to end.

view({
  name: 'answer',
  title: 'Answer',
  help: 'How likely the answer begins (▸) and ends (◂) at each word. The words of the best answer are framed; other answers are listed, with their probability among all.',
  fits: (own) => own.views.includes('answer'),
  draw: (root) => withText(root, drawAnswer),
});

async function drawAnswer(root) {
  const asked = { text: state.text, second: state.second || null };
  if (!asked.second) { put(root, el('p', { class: 'faint' }, 'Write the text that the question is about into the second field.')); return; }
  const found = await ask('answer', asked);
  if (!root.isConnected || asked.text !== state.text) return; // another text is on its way
  const rows = found.spans.map((span) => ({ name: span.text, share: span.probability, data: { 'data-span': `${span.start}-${span.end}` } }));
  if (found.none > 0) rows.push({ name: 'no answer', share: found.none, data: { 'data-span': 'none' } });
  put(root, el('div', { class: 'split' },
    el('section', { id: 'verdict' },
      el('h3', {}, found.answered ? `“${shown(found.spans[0].text)}”` : 'The text has no answer'),
      shareTable(rows, null, 'answers'),
      found.windows > 1 ? el('p', { class: 'faint' }, `The text was read in ${found.windows} windows that overlap.`) : null),
    el('section', { id: 'passage' },
      el('h3', {}, 'Where it begins and ends'),
      el('div', { class: 'tokens answers', id: 'answer-words' }, found.words.map((word, i) => answerWord(found, word, i))))));
}

function answerWord(found, word, i) {
  const begins = found.starts[i], ends = found.ends[i], most = Math.max(begins, ends);
  const note = most < 0.005 ? '' : [begins >= 0.005 ? `▸${sharePercent(begins)}` : '', ends >= 0.005 ? `${sharePercent(ends)}◂` : ''].filter(Boolean).join(' ');
  return shareChip({
    name: word, note, share: most, pressed: found.inside[i], data: { 'data-word': i },
    label: `${shown(word)}: begins ${fixed(begins, 4)}, ends ${fixed(ends, 4)}`,
  });
}
