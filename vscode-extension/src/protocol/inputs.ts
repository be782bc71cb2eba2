/** How a model is constructed and called: its comment, and the result of trying another one. */
import { RequestType } from 'vscode-languageclient';

export interface InputsParams {
  uri: string;
  target: string;
}

export interface InputsAnswer {
  /** The comment without its prefix: `Net(3) <- torch.randn(1, 3)`. */
  text: string;
  /** Start and end of the part that is to be changed. */
  select: [number, number];
}

export interface InputsVerdict {
  works: boolean;
  /** The result, as a sentence. */
  verdict: string;
}

export const inputs = new RequestType<InputsParams, InputsAnswer | { reason: string }, void>('fxlens/inputs');
/** Traces the file with this comment instead of the existing one; nothing is written. */
export const tryInputs = new RequestType<InputsParams & { text: string }, InputsVerdict | { reason: string }, void>('fxlens/tryInputs');
