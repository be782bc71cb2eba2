// Temporary folders go, however long the processes that used them take to let go of them.
import fs from 'node:fs';

const PATIENCE = 30_000;

/** Removes a folder. What a dying process still writes into it is waited for; what stays then is told, and fails nothing. */
export async function remove(folder) {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    try {
      fs.rmSync(folder, { recursive: true, force: true });
      return;
    } catch (error) {
      if (Date.now() > deadline) return void console.error(`${folder} stays: ${error.message}`);
    }
    await new Promise(resolve => setTimeout(resolve, 200));
  }
}
