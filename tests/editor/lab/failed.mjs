/** A reporter for node:test: the files in which a test failed, and `end` once all have run. */
export default async function* failed(events) {
  for await (const { type, data } of events) if (type === 'test:fail') yield `${data.file}\n`;
  yield 'end\n';
}
