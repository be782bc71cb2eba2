/** Who made a selection, as VS Code tells of it: later, in turn, and of what the user does in between too. */
import { beforeEach, describe, expect, it } from 'vitest';
import { Selections } from '../../src/host/selections';
import { Selection, TextEditorSelectionChangeKind as Kind, state } from './vscode';

const range = (line: number) => ({ start: { line, character: 0 }, end: { line, character: 4 } });
const editor = () => ({ selections: [] as Selection[], revealRange() {} }) as any;
/** VS Code says that this is selected now. */
const tell = (textEditor: any, line: number, kind: number) => {
  textEditor.selections = [new Selection(line, 0, line, 4)];
  return state.selection.fire({ textEditor, selections: textEditor.selections, kind });
};

describe('a selection', () => {
  const graph = { name: 'graph' };
  const code = { name: 'code' };
  let selections: Selections;
  let source: any;
  beforeEach(() => {
    state.reset();
    selections = new Selections();
    source = editor();
  });

  it('is that of the view that made it, before and after VS Code has told of it', async () => {
    selections.make(source, [range(3)], graph);
    expect(selections.by(source)).toBe(graph);
    await tell(source, 3, Kind.Command);
    expect(selections.by(source)).toBe(graph);
  });

  it('is the user’s when it is made by hand, or by a command after the view’s was told of', async () => {
    selections.make(source, [range(3)], graph);
    await tell(source, 3, Kind.Mouse);
    expect(selections.by(source)).toBeUndefined();
    await tell(source, 3, Kind.Command); // the view's, told of only now
    expect(selections.by(source)).toBe(graph);
    await tell(source, 5, Kind.Command);
    expect(selections.by(source)).toBeUndefined();
    await tell(source, 3, Kind.Command);
    expect(selections.by(source)).toBeUndefined();
  });

  it('is still the view’s when the next was made before VS Code told of it', async () => {
    selections.make(source, [range(3)], graph);
    selections.make(source, [range(4)], code);
    await tell(source, 3, Kind.Command);
    expect(selections.by(source)).toBe(graph);
    await tell(source, 4, Kind.Command);
    expect(selections.by(source)).toBe(code);
  });

  it('of which VS Code has nothing to tell is not waited for', async () => {
    selections.make(source, [range(3)], graph);
    await tell(source, 3, Kind.Command);
    selections.make(source, [range(3)], code);
    expect(selections.by(source)).toBe(code);
    await tell(source, 4, Kind.Keyboard);
    await tell(source, 3, Kind.Command);
    expect(selections.by(source)).toBeUndefined();
  });

  it('of one editor says nothing of another', async () => {
    const other = editor();
    selections.make(source, [range(3)], graph);
    await tell(other, 3, Kind.Command);
    expect(selections.by(other)).toBeUndefined();
    await tell(source, 3, Kind.Command);
    expect(selections.by(source)).toBe(graph);
  });
});
