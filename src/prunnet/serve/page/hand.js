// How the drawings of a family look, read off some of them, so that a visitor's strokes are set in the same hand.

/** Ink lighter than paper?; width of a line and longest side of the ink, as shares of the picture's side. */
export const PLAIN = { light: false, line: 0.09, extent: 0.74 };

/** The hand of `pictures` (ImageData): the median of each. */
export function handOf(pictures) {
  const seen = pictures.map(measured).filter(Boolean);
  if (!seen.length) return PLAIN;
  const median = (of) => seen.map(of).sort((a, b) => a - b)[seen.length >> 1];
  return { light: median((hand) => +hand.light) > 0, line: median((hand) => hand.line), extent: median((hand) => hand.extent) };
}

function measured({ data, width, height }) {
  const grey = (x, y) => data[4 * (y * width + x)] + data[4 * (y * width + x) + 1] + data[4 * (y * width + x) + 2];
  const all = Array.from({ length: width * height }, (_, i) => grey(i % width, Math.floor(i / width)));
  const sorted = all.toSorted((a, b) => a - b);
  const dark = sorted[Math.floor(0.02 * all.length)], bright = sorted[Math.floor(0.98 * all.length)];
  const middle = (dark + bright) / 2;
  const light = sorted[all.length >> 1] < middle; // most of a picture is paper
  const inked = (x, y) => x >= 0 && y >= 0 && x < width && y < height && grey(x, y) > middle === light;
  let area = 0, edges = 0, left = width, right = -1, top = height, bottom = -1;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (!inked(x, y)) continue;
      area++;
      edges += !inked(x - 1, y) + !inked(x + 1, y) + !inked(x, y - 1) + !inked(x, y + 1);
      left = Math.min(left, x), right = Math.max(right, x), top = Math.min(top, y), bottom = Math.max(bottom, y);
    }
  }
  if (!area || bright - dark < 90) return undefined;
  const side = Math.max(width, height);
  // A line of width w and length l has area w·l and outline 2·l; pixel edges overstate an outline by 4/π on average.
  return { light, line: (2 * area) / (edges * (Math.PI / 4)) / side, extent: Math.max(right - left, bottom - top) / side };
}
