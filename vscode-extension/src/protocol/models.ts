/** The request that checks the workspace, and its answer. */
import { ProgressType, RequestType } from 'vscode-languageclient';
import type { ModelRow, ModelsPart } from './models_page';

export interface ModelsAnswer {
  rows: ModelRow[];
  notes: string[];
}

export const models = new RequestType<{ partialResultToken: string }, ModelsAnswer | { reason: string }, void>('fxlens/models');
export const modelsPart = new ProgressType<ModelsPart>();
