// Answer: a question, and the stretch of a text that answers it.

view({
  name: 'answer',
  title: 'Answer',
  help: 'Paste a text and ask about it: the answer is marked where it stands. Click another candidate to see it marked.',
  task: 'answer',
  carries: () => ({ text: answering.question, second: answering.context }),
  draw: drawAnswer,
});

const answering = { model: null, context: '', question: '' };

function drawAnswer(root) {
  const context = textField('Text', answering, 'context', { rows: 8 });
  const question = el('input', { type: 'text', id: 'question', dir: 'auto', value: answering.question, placeholder: 'Ask about the text.', on: { input: () => { answering.question = question.value; } } });
  const result = results('Answer', 'answered');

  function take() {
    if (!answering.context.trim() || !answering.question.trim()) { result.show(el('p', { class: 'faint' }, 'The answer will appear here.')); return; }
    const text = answering.context;
    result.run(async (how) => drawAnswered((await ask('v1/answer', { model: answering.model, questions: [answering.question], contexts: [text] }, how)).results[0], text));
  }

  const model = modelChoice('answer', answering, take);
  whenTyped(context.field, take);
  whenTyped(question, take);
  put(root, el('div', { class: 'split' },
    el('form', { on: { submit: (event) => event.preventDefault() } }, context.label, el('label', { class: 'wide' }, 'Question', question), model), result.root));
  take();
}

function drawAnswered(found, text) {
  const letters = characters(text), box = el('div', {});
  function mark(span) {
    const part = (start, end) => letters.slice(start, end).join('');
    put(box,
      el('h3', { class: 'large', id: 'verdict' }, span ? `“${span.text}”` : 'The text has no answer'),
      el('p', { class: 'plain', id: 'context-marked', dir: 'auto' }, span ? [part(0, span.start), el('mark', {}, part(span.start, span.end)), part(span.end)] : text),
      shareTable([...found.spans.map((each) => ({ name: each.text, share: each.probability, span: each, data: { class: span && each.start === span.start && each.end === span.end ? 'chosen' : null } })),
        ...(found.none ? [{ name: 'no answer', share: found.none, closed: true }] : [])], (row) => mark(row.span), 'answers'));
  }
  mark(found.answer);
  return box;
}
