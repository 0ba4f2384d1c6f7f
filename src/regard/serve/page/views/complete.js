// Complete: what a language model writes behind a prompt, token by token, until it is stopped.

view({
  name: 'complete',
  title: 'Complete',
  help: 'Begin a text, and the model goes on with it. Ctrl+Enter starts, Escape stops.',
  task: 'language',
  carries: () => ({ text: completing.prompt }),
  draw: drawComplete,
});

const completing = { model: null, prompt: '', tokens: 100, temperature: 0.8, before: '', written: '', ended: '' };

function drawComplete(root) {
  const prompt = textField('Prompt', completing, 'prompt', { rows: 5 });
  const result = results('Text', 'completed');
  const tokens = el('input', { type: 'number', class: 'figure', id: 'tokens', min: 1, max: about.limits.max_tokens, value: completing.tokens,
    on: { change: () => { completing.tokens = Math.max(1, Math.min(about.limits.max_tokens, Math.round(Number(tokens.value)) || 100)); tokens.value = completing.tokens; } } });
  const go = el('button', { class: 'act', id: 'go' }, 'Write'), stop = el('button', { type: 'button', class: 'quiet', id: 'stop', disabled: true, on: { click: end } }, 'Stop');
  const on = el('button', { type: 'button', class: 'quiet', id: 'on', on: { click: () => { prompt.field.value = completing.prompt = completing.before + completing.written; write(); } } }, 'Go on from here');
  const line = el('p', { class: 'plain', dir: 'auto' }), foot = el('p', { class: 'row faint' });

  function draw() {
    put(line, el('span', { class: 'faint' }, completing.before), completing.written);
    put(foot, completing.ended ? el('span', {}, completing.ended) : null, completing.ended && completing.written ? on : null);
  }

  function end() {
    result.stop();
    stop.disabled = true;
    if (!completing.ended) completing.ended = 'stopped';
    draw();
    go.focus();
  }

  function write() {
    if (!completing.prompt) { prompt.field.focus(); return; }
    Object.assign(completing, { before: completing.prompt, written: '', ended: '' });
    result.show(line, foot);
    draw();
    stop.disabled = false;
    result.run(async (how) => {
      const given = { model: completing.model, prompt: completing.prompt, max_tokens: completing.tokens, temperature: completing.temperature, stream: true };
      try {
        await readStream(await send('v1/completions', { ...how, given }), ({ text, finish_reason: reason }) => {
          completing.written += text;
          if (reason) completing.ended = reason === 'length' ? 'stopped after so many tokens' : 'the model ended here';
          draw();
        });
      } finally {
        if (!how.signal.aborted) stop.disabled = true;
      }
      return [line, foot];
    });
  }

  const model = modelChoice('language', completing, () => {});
  prompt.field.addEventListener('keydown', (event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); write(); } });
  root.addEventListener('keydown', (event) => { if (event.key === 'Escape' && !stop.disabled) end(); });
  put(root,
    el('form', { on: { submit: (event) => { event.preventDefault(); write(); } } }, prompt.label,
      el('div', { class: 'row' }, go, stop, el('label', {}, 'Tokens', tokens),
        slider('Temperature', 0, 2, completing.temperature, (value) => { completing.temperature = value; }, { step: 0.1, id: 'temperature' }), model)),
    result.root);
  if (completing.before) { result.show(line, foot); draw(); }
  else result.show(el('p', { class: 'faint' }, 'The text will appear here.'));
}

/** Calls `take` with every choice that comes, as it comes. */
async function readStream(reply, take) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = '', part = await reader.read(); !part.done; part = await reader.read()) {
    const events = (rest + part.value).split('\n\n');
    rest = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: /, '');
      if (data === '[DONE]') return;
      const { choices, error } = JSON.parse(data);
      if (error) throw refused(error.message);
      take(choices[0]);
    }
  }
}
