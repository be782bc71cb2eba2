/** A page's way to its host, and to its own elements. */
declare function acquireVsCodeApi(): { postMessage(message: unknown): void };

/** What sends messages of this kind to the host; to be called once. */
export function connect<Message>(): (message: Message) => void {
  const host = acquireVsCodeApi();
  return message => host.postMessage(message);
}

export const element = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;
