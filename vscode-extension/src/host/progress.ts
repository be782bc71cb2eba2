/** A slow request, with a notification that shows its progress and can cancel it. */
import * as crypto from 'node:crypto';
import * as vscode from 'vscode';
import { WorkDoneProgress } from 'vscode-languageclient';
import type { LanguageClient } from 'vscode-languageclient/node';

/** Makes the tokens by which the server reports progress. */
export const progressToken = () => `fxlens-${crypto.randomUUID()}`;

/** The answer; undefined when the user cancels. */
export function withProgress<Answer>(
  client: LanguageClient, title: string, send: (workDoneToken: string, cancel: vscode.CancellationToken) => Promise<Answer>,
): Thenable<Answer | undefined> {
  const token = progressToken();
  return vscode.window.withProgress({ location: vscode.ProgressLocation.Notification, title, cancellable: true }, async (progress, cancel) => {
    let shown = 0;
    const listening = client.onProgress(WorkDoneProgress.type, token, value => {
      if (value.kind !== 'report') return;
      const percent = value.percentage ?? shown;
      progress.report({ message: value.message, increment: percent - shown });
      shown = percent;
    });
    try {
      return await send(token, cancel);
    } catch (error) {
      if (cancel.isCancellationRequested) return undefined;
      throw error;
    } finally {
      listening.dispose();
    }
  });
}
