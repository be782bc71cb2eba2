/** What a command finds that was given before the server ran. */
import { beforeEach, expect, it, vi } from 'vitest';

vi.mock('vscode-languageclient', async () => ({ ...await vi.importActual<object>('vscode-languageserver-protocol'), State: { Stopped: 1 } }));
vi.mock('../../src/host/server', () => ({ createClient: () => undefined }));

import { Lens } from '../../src/host/lens';
import { Uri, state, workspace } from './vscode';

beforeEach(() => state.reset());

const context = { workspaceState: {}, extension: { packageJSON: { version: '0' } } } as any;
const source = Uri.file('/w/net.py') as any;
const answer = { record: { targets: [{ name: 'Net', nodes: [{}], captures: [] }] }, cursor: 'Net' };

it('is the file of a preview that another one has replaced meanwhile', async () => {
  const open = new Set([String(source)]);
  workspace.openTextDocument = vi.fn(async uri => open.add(String(uri)));
  const lens = new Lens(context);
  lens.client = {
    isRunning: () => true,
    code2ProtocolConverter: { asUri: String },
    sendNotification: async () => {},
    sendRequest: async (_: unknown, { uri }: { uri: string }) => (open.has(uri) ? answer : null),
  } as any;
  const picked = lens.pickTarget(source);
  open.clear();
  expect(await picked).toBe('Net');
});
