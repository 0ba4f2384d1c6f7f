// Classify: how likely each label is.

view({
  name: 'classify',
  title: 'Classify',
  help: 'Write a text: the bars tell how likely each label is.',
  task: 'classify',
  carries: () => ({ text: classifying.text, second: classifying.second }),
  draw: drawClassify,
});

const classifying = { model: null, text: '', second: '', all: false };
const FEW_LABELS = 10;

function drawClassify(root) {
  const text = textField('Text', classifying, 'text'), second = textField('Second text, for models of pairs', classifying, 'second', { rows: 2 });
  const result = results('Labels', 'labels-found');

  function take() {
    if (!classifying.text.trim()) { result.show(el('p', { class: 'faint' }, 'The labels will appear here.')); return; }
    result.run(async (how) => {
      const pair = classifying.second.trim() ? { seconds: [classifying.second] } : {};
      const { results: [found] } = await ask('v1/classify', { model: classifying.model, texts: [classifying.text], ...pair }, how);
      return drawLabels(found);
    });
  }

  function drawLabels(found) {
    if (!found.probabilities) return el('h3', { class: 'number large', id: 'value' }, fixed(found.value, 3));
    const rows = Object.entries(found.probabilities).map(([name, share]) => ({ name, share, data: { 'data-label': name, class: found.labels.includes(name) ? 'chosen' : null } })).sort((a, b) => b.share - a.share);
    const verdict = found.label ?? (found.labels.length ? found.labels.join(', ') : 'No label is likelier than not');
    const box = el('div', {});
    const draw = () => put(box,
      shareTable(classifying.all ? rows : rows.slice(0, FEW_LABELS), null, 'labels'),
      rows.length > FEW_LABELS ? el('button', { type: 'button', class: 'quiet', on: { click: () => { classifying.all = !classifying.all; draw(); } } }, classifying.all ? 'Fewer' : `All ${rows.length} labels`) : null);
    draw();
    return [el('h3', { class: 'large' }, shown(verdict)), box];
  }

  const model = modelChoice('classify', classifying, take);
  whenTyped(text.field, take);
  whenTyped(second.field, take);
  put(root, el('div', { class: 'split' },
    el('form', { on: { submit: (event) => event.preventDefault() } }, text.label, second.label, model), result.root));
  take();
}
