// The camera of a phone or computer.

import { drawn } from "./pictures.js";

const REASONS = {
  NotAllowedError: "The camera was not allowed. Allow it for this page in the browser's settings, or choose a picture",
  NotFoundError: "No camera was found. Choose a picture instead",
  NotReadableError: "The camera is in use by another program. Close that, or choose a picture",
};

/** There is no picture from the camera, in words. */
export class NoCamera extends Error {}

export class Camera {
  #video;
  #stream = null;

  constructor(video) {
    this.#video = video;
  }

  get on() {
    return this.#stream !== null;
  }

  async start() {
    if (!navigator.mediaDevices?.getUserMedia) {
      throw new NoCamera("Browsers give their camera only to pages that come by https, or from this very machine. Choose a picture instead");
    }
    try {
      this.#stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    } catch (error) {
      throw new NoCamera(REASONS[error.name] ?? `The camera does not start (${error.message}). Choose a picture instead`);
    }
    this.#video.srcObject = this.#stream;
    await this.#video.play();
  }

  /** What it sees, the square in the middle that is shown. */
  take() {
    const { videoWidth, videoHeight } = this.#video;
    const side = Math.min(videoWidth, videoHeight);
    const left = (videoWidth - side) / 2, top = (videoHeight - side) / 2;
    return drawn(side, side, (context) => context.drawImage(this.#video, left, top, side, side, 0, 0, side, side));
  }

  stop() {
    for (const track of this.#stream?.getTracks() ?? []) track.stop();
    this.#video.srcObject = this.#stream = null;
  }
}
