// Documents: a file in, the same file in another language out. Part of Translate, where the service takes files.

let formats = null; // that the service translates, asked for once

/** A button, where files are taken between these languages; what comes of it is told in `below`. */
function documentButton(pair, below) {
  if (!has.documents || !pair.target) return null;
  const place = el('span', {});
  showFormats();
  return place;

  async function showFormats() {
    try {
      formats ??= (await (await send('frontend/settings')).json()).supportedFilesFormat ?? [];
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return; // the rest of the page says what is wrong
    }
    if (formats.length) put(place, fileButton('Translate a file', 'document', translateFile, formats.join()));
  }

  function translateFile(file) {
    const result = results('Document', 'translated-document');
    put(below, el('h2', {}, file.name), result.root);
    result.run(async (how) => {
      how.waiting('Translating the document …');
      const form = new FormData();
      for (const [name, value] of Object.entries({ file, source: pair.source ?? 'auto', target: pair.target })) form.append(name, value);
      const { translatedFileUrl } = await ask('translate_file', form, how);
      const { pathname } = new URL(translatedFileUrl, location.href);
      const reply = await send(pathname, how), whole = await reply.blob();
      const name = decodeURIComponent(reply.headers.get('Content-Disposition')?.match(/filename\*=UTF-8''([^;]+)/)?.[1] ?? file.name);
      return el('p', {}, el('a', { href: URL.createObjectURL(whole), download: name, class: 'act', id: 'download' }, `Save ${name}`),
        el('span', { class: 'faint' }, ` ${Math.ceil(whole.size / 1000).toLocaleString('en')} kB`));
    });
  }
}
