// What is slow to start is kept for a moment after its use: the next test takes it, and the last one need not know that it is.
const MOMENT = 3000;

export class Kept {
  /** `start` makes it; what it makes has `stop()`, and `works()` where it can break unseen. */
  constructor(start) {
    this.start = start;
    this.users = 0;
  }

  async take() {
    clearTimeout(this.timer);
    if (this.made && (await this.made.catch(() => null))?.works?.() === false) await this.stop();
    this.made ??= this.start();
    this.users++;
    try {
      return await this.made;
    } catch (error) {
      this.users--;
      this.made = undefined;
      throw error;
    }
  }

  /** Gives it back. After a failure nobody takes it again: it ends when its last user has given it back. */
  async give(failed = false) {
    this.failed ||= failed;
    if (--this.users) return;
    if (this.failed) await this.stop();
    else this.timer = setTimeout(() => this.stop(), MOMENT);
  }

  async stop() {
    const { made, failed } = this;
    this.made = undefined;
    this.failed = false;
    await (await made)?.stop(failed);
  }
}
