/** Selects the source of nodes, in a file or a cell of a notebook. */
import * as vscode from 'vscode';
import { fileOf } from '../code/addresses';
import { editorOf, showText } from '../code/show';
import type { Lens } from '../lens';
import type { Place } from '../../protocol/graph';
import { placesIn } from './places';

/** All of the nodes in the file or cell of the first one in `source`; `by` is the requesting view. */
export async function reveal(lens: Lens, by: object, source: vscode.Uri | undefined, places: Record<string, Place[]>, names: string[], focus: boolean): Promise<void> {
  const here = (uri: string) => String(fileOf({ uri: vscode.Uri.parse(uri) })) === String(source);
  const found = placesIn(places, names, names.flatMap(name => places[name] ?? []).find(({ uri }) => here(uri))?.uri);
  if (!found) return;
  const uri = vscode.Uri.parse(found.uri);
  // Only visible texts follow; another file is opened only when the user navigates to it.
  if (!editorOf(uri) && !focus) return;
  const editor = await showText(uri, focus);
  if (editor) lens.selections.make(editor, found.ranges, by);
}
