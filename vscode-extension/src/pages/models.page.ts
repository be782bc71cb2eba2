/** The page with the table of models. The table itself is that of `fxlens check --format html`. */
import '../../../server/fxlens/views/page/models.css';
import { Models } from '../../../server/fxlens/views/page/models.js';
import { type FromModels, isToModels } from '../protocol/models_page';
import { connect, element } from './connection';

const send = connect<FromModels>();
const root = document.querySelector('main') as HTMLElement;
const empty = () => new Models(root, {
  open: (row, { cell, line }, character) => send({ type: 'open', uri: row.uri, cell, line, character }),
  graph: row => send({ type: 'graph', uri: row.uri, name: row.name }),
});
let table = empty();

function state(text: string, running: boolean): void {
  element('state').textContent = text;
  element('cancel').hidden = !running;
  element('again').hidden = running;
}

window.addEventListener('message', event => {
  const message: unknown = event.data;
  if (!isToModels(message)) return;
  switch (message.type) {
    case 'begin':
      table = empty();
      state('Looking for Python files and notebooks…', true);
      break;
    case 'part':
      table.add(message.rows);
      state(`${message.done} of ${message.files} files checked`, true);
      break;
    case 'end':
      table.close(message.notes, []);
      state('The files are checked as they are saved.', false);
      break;
    case 'failed':
      state(message.reason, false);
      break;
  }
});
element('again').addEventListener('click', () => send({ type: 'again' }));
element('cancel').addEventListener('click', () => send({ type: 'cancel' }));
send({ type: 'ready' });
