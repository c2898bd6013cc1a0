// Pictures from files, the clipboard, addresses and canvases, as the pixels that the network takes.

const LONGEST = 4096; // of a side; larger ones are reduced by the browser, since a phone's memory is small

/** A picture that cannot be read, in words. */
export class Unreadable extends Error {}

/** The ImageData of a Blob, upright as its EXIF data say. What is transparent becomes white. */
export async function pixelsOf(blob, name = "this file") {
  const options = { colorSpaceConversion: "none" };
  let bitmap;
  try {
    bitmap = await createImageBitmap(blob, options);
  } catch {
    throw new Unreadable(`${name} is no picture that this browser can read; PNG, JPEG and WebP are`);
  }
  const longest = Math.max(bitmap.width, bitmap.height);
  const scale = Math.min(1, LONGEST / longest);
  const width = Math.max(1, Math.round(bitmap.width * scale)), height = Math.max(1, Math.round(bitmap.height * scale));
  const pixels = drawn(width, height, (context) => context.drawImage(bitmap, 0, 0, width, height));
  bitmap.close();
  return pixels;
}

/** What `draw` puts on a white canvas. */
export function drawn(width, height, draw) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#fff";
  context.fillRect(0, 0, width, height);
  draw(context);
  return context.getImageData(0, 0, width, height);
}

/** Show `pixels` in a canvas element. */
export function paint(canvas, pixels) {
  canvas.width = pixels.width;
  canvas.height = pixels.height;
  canvas.getContext("2d").putImageData(pixels, 0, 0);
}

/** The first picture among what was dropped, pasted or chosen. */
export function pictureIn(transfer) {
  return [...(transfer?.files ?? [])].find((file) => file.type.startsWith("image/")) ?? transfer?.files?.[0];
}
