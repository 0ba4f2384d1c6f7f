// The frame of a page: tabs, colours, what the address remembers, and the key of a service that wants one.

function remember() {
  const kept = Object.fromEntries(REMEMBERED.map((name) => [name, state[name]]).filter(([, value]) => value !== null));
  history.replaceState(null, '', `#${encodeURIComponent(JSON.stringify(kept))}`);
}

function recall() {
  try {
    const kept = JSON.parse(decodeURIComponent(location.hash.slice(1)));
    for (const name of REMEMBERED) {
      const kind = state[name] === null ? 'string' : typeof state[name]; // null may be any text
      if (typeof kept[name] === kind) state[name] = kept[name];
    }
  } catch { /* an address without a memory */ }
}

function open(name) {
  state.view = name;
  for (const tab of document.querySelectorAll('#tabs button')) {
    const chosen = tab.id === `tab-${name}`;
    tab.setAttribute('aria-selected', String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
  }
  document.getElementById('view').setAttribute('aria-labelledby', `tab-${name}`);
  say('');
  remember();
  drawView();
}

function dark(on) {
  document.documentElement.classList.toggle('dark', on);
  document.getElementById('theme').textContent = on ? 'light' : 'dark';
}

/** Light or dark as the machine has it, until the switch is used. */
function followColours() {
  const preferred = matchMedia('(prefers-color-scheme: dark)');
  dark(preferred.matches);
  preferred.addEventListener('change', () => { dark(preferred.matches); redraw(); });
  document.getElementById('theme').addEventListener('click', () => { dark(!isDark()); redraw(); });
}

/** The tabs of these views; arrow keys move between them. */
function drawTabs(own) {
  const tabs = document.getElementById('tabs');
  put(tabs, own.map((each) => el('button', {
    type: 'button', role: 'tab', id: `tab-${each.name}`, 'aria-controls': 'view', on: { click: () => open(each.name) },
  }, each.title)));
  tabs.addEventListener('keydown', (event) => {
    const at = own.findIndex((each) => each.name === state.view);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: own.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = own[(to + own.length) % own.length].name;
    open(next);
    document.getElementById(`tab-${next}`).focus();
  });
}

/** A key that was given on the page of the service: it is kept until the browser's tab is closed. */
const KEY = 'regard.key';

function keyHeader() {
  const key = sessionStorage.getItem(KEY);
  return key ? { Authorization: `Bearer ${key}` } : {};
}
