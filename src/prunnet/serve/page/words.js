// Quantities and names as the page says them.

const numbers = new Intl.NumberFormat("en");

export const count = (number) => numbers.format(number);

export const percent = (capacity) => `${+(100 * capacity).toPrecision(3)}\u00a0%`;

/** 1 kB is 1,000 bytes. */
export function bytes(number) {
  if (number < 1000) return `${number}\u00a0B`;
  return number < 1e6 ? `${(number / 1e3).toFixed(1)}\u00a0kB` : `${(number / 1e6).toFixed(2)}\u00a0MB`;
}

export const milliseconds = (time) => `${time < 10 ? time.toFixed(1) : Math.round(time)}\u00a0ms`;

/** A class as one reads it: that of a character, `U+0416`, begins with the character. */
export function named(label) {
  const text = String(label ?? "");
  const point = parseInt(/^U\+([0-9A-F]{4,6})\b/.exec(text)?.[1], 16);
  return point <= 0x10ffff ? `${String.fromCodePoint(point)} ${text}` : text.replaceAll(/[-_]+/g, " ");
}
