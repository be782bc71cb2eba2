/** Numbers with units, as text. */
export function bytes(number: number): string {
  for (const [unit, size] of [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]] as const) {
    if (number >= size) return `${(number / size).toFixed(number >= 100 * size ? 0 : 1)} ${unit}`;
  }
  return `${number} B`;
}

export function big(number: number, unit: string): string {
  for (const [prefix, size] of [['T', 1e12], ['G', 1e9], ['M', 1e6], ['k', 1e3]] as const) {
    if (number >= size) return `${(number / size).toFixed(2)} ${prefix}${unit}`;
  }
  return `${number} ${unit}`.trim();
}

export function milliseconds(ms: number): string {
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  if (ms >= 0.1) return `${ms.toFixed(ms >= 10 ? 1 : 2)} ms`;
  return `${(ms * 1000).toFixed(1)} µs`;
}
