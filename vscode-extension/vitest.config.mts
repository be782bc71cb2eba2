import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: { include: ['test/unit/**/*.test.ts'], reporters: ['default'], slowTestThreshold: 500 },
  resolve: { alias: { vscode: new URL('./test/unit/vscode.ts', import.meta.url).pathname } },
});
