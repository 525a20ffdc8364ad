// The window on the time axis, in seconds, and its pixels. Every band of the page shares one.

const SHORTEST = 0.002;

export class View {
  constructor() {
    Object.assign(this, { from: 0, to: 1, first: 0, last: 1, left: 60, right: 12, width: 600 });
  }

  get span() {
    return this.to - this.from;
  }

  get plot() {
    return Math.max(1, this.width - this.left - this.right);
  }

  x(t) {
    return this.left + ((t - this.from) * this.plot) / this.span;
  }

  t(x) {
    return this.from + ((x - this.left) * this.span) / this.plot;
  }

  /** Show [from, to]: at least 2 ms, and never farther out than the data and a twentieth. */
  show(from, to) {
    const whole = Math.max(this.last - this.first, SHORTEST);
    const span = Math.min(Math.max(to - from, SHORTEST), whole * 1.1);
    const middle = (from + to) / 2;
    const edge = whole * 0.05;
    this.from = Math.min(Math.max(middle - span / 2, this.first - edge), this.last + edge - span);
    this.to = this.from + span;
  }

  fit() {
    this.show(this.first, this.last);
  }

  isWhole() {
    return this.from <= this.first && this.to >= this.last;
  }

  /** `factor` < 1 zooms in; the second `at` stays where it is. */
  zoom(factor, at) {
    const span = Math.max(this.span * factor, SHORTEST);
    const share = (at - this.from) / this.span;
    this.show(at - span * share, at + span * (1 - share));
  }

  /** By a share of the window. */
  pan(share) {
    this.show(this.from + this.span * share, this.to + this.span * share);
  }
}
