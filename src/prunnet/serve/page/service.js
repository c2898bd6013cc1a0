// What the page asks of the service, and what can be wrong with an answer.

/** The service does not answer: it was stopped, or there is no connection. */
export class ServiceGone extends Error {}

/** It answers for another family, or has another file, than the page has. */
export class FamilyChanged extends Error {}

/** It wants a token, or another one. */
export class TokenWanted extends Error {}

/** It refuses, for the reason in the message. */
export class Refused extends Error {}

const KINDS = { 401: TokenWanted, 409: FamilyChanged, 502: ServiceGone, 504: ServiceGone };
const TOKEN = "prunnet-token";

export class Service {
  get token() {
    return sessionStorage.getItem(TOKEN);
  }

  set token(token) {
    sessionStorage.setItem(TOKEN, token);
  }

  get headers() {
    return this.token ? { Authorization: `Bearer ${this.token}` } : {};
  }

  family() {
    return this.#json("/v1/family", { cache: "no-store" });
  }

  queries() {
    return this.#json("/v1/queries");
  }

  /** The `k` nearest to `vector`, which travels as its bytes. */
  async search(vector, familyId, k) {
    const headers = { "Content-Type": "application/octet-stream", "X-Family-Id": familyId };
    const began = performance.now();
    const { answers } = await this.#json(`/v1/search?k=${k}&dtype=float32`, { method: "POST", headers, body: vector });
    return { answers, milliseconds: performance.now() - began };
  }

  async picture(address) {
    return (await this.#fetched(address)).blob();
  }

  /** Put the picture at `address` into `image`. A token is sent in a header, which only a script can do. */
  async show(image, address) {
    if (!this.token) {
      image.src = address;
      return;
    }
    image.src = URL.createObjectURL(await this.picture(address));
    image.onload = () => URL.revokeObjectURL(image.src);
  }

  async #json(address, options) {
    return (await this.#fetched(address, options)).json();
  }

  async #fetched(address, options = {}) {
    let response;
    try {
      response = await fetch(address, { ...options, headers: { ...options.headers, ...this.headers } });
    } catch {
      throw new ServiceGone("the service does not answer");
    }
    if (response.ok) return response;
    const told = await response.json().catch(() => ({}));
    const message = typeof told.detail === "string" ? told.detail : `the service answers with status ${response.status}`;
    throw new (KINDS[response.status] ?? Refused)(message);
  }
}
