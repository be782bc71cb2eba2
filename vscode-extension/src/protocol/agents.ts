/** The request behind the tools of agents. */
import { RequestType } from 'vscode-languageclient';

export interface AskParams {
  /** A tool of `fxlens mcp`, and its arguments without `text`. */
  tool: string;
  arguments: Record<string, unknown>;
  /** The documents with changes that are not saved. */
  unsaved: string[];
}

export interface AskAnswer {
  /** JSON, of at most 2,000 bytes unless the arguments allow more. */
  text: string;
}

export const ask = new RequestType<AskParams, AskAnswer | { reason: string }, void>('fxlens/ask');
