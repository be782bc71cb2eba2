/** A page's connection to its host, and access to its elements. */
declare function acquireVsCodeApi(): { postMessage(message: unknown): void };

/** A function that sends messages of this type to the host; call it once. */
export function connect<Message>(): (message: Message) => void {
  const host = acquireVsCodeApi();
  return message => host.postMessage(message);
}

export const element = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;
