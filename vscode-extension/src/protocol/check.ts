/** Small checks of messages, since those from a web page, or from a server of another version, are not trusted. */

export type Check = (value: unknown) => boolean;
export const text: Check = value => typeof value === 'string';
export const flag: Check = value => typeof value === 'boolean';
export const texts: Check = value => Array.isArray(value) && value.every(text);
export const oneOf = (...allowed: unknown[]): Check => value => allowed.includes(value);
export const either = (...checks: Check[]): Check => value => checks.some(check => check(value));
export const absent: Check = value => value === undefined;
export const shape = (fields: Record<string, Check>): Check => value =>
  typeof value === 'object' && value !== null && !Array.isArray(value) &&
  Object.entries(fields).every(([name, check]) => check((value as Record<string, unknown>)[name]));
export const record = (check: Check): Check => value =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && Object.values(value).every(check);
export const list = (check: Check): Check => value => Array.isArray(value) && value.every(check);

/** A label and a text. */
export const pair: Check = value => texts(value) && (value as string[]).length === 2;
export const numeric: Check = value => typeof value === 'number';
export const nothing = oneOf(null);

/** Whether `value` is a message of one of the types in the table. */
export function matches(table: Record<string, Check>, value: unknown): boolean {
  const type = (value as { type?: unknown } | null)?.type;
  return typeof type === 'string' && Object.hasOwn(table, type) && table[type](value);
}
