/** How a model is constructed and called: what its comment says, and what would come of another one. */
import { RequestType } from 'vscode-languageclient';

export interface InputsParams {
  uri: string;
  target: string;
}

export interface InputsAnswer {
  /** The comment without its mark: `Net(3) <- torch.randn(1, 3)`. */
  text: string;
  /** Start and end of the part that is to be changed. */
  select: [number, number];
}

export interface InputsVerdict {
  works: boolean;
  /** What came of it, in a sentence. */
  verdict: string;
}

export const inputs = new RequestType<InputsParams, InputsAnswer | { reason: string }, void>('fxlens/inputs');
/** Traces the file with this comment in place of the one that is there; nothing is written. */
export const tryInputs = new RequestType<InputsParams & { text: string }, InputsVerdict | { reason: string }, void>('fxlens/tryInputs');
