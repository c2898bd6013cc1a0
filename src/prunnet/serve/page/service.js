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

export class Service {
  #token = null; // for as long as the page is open

  /** Exchange a token for a cookie, which the browser then sends along with everything. */
  async enter(token) {
    await this.#fetched("/v1/session", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
    this.#token = token;
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

  async #json(address, options) {
    return (await this.#fetched(address, options)).json();
  }

  async #fetched(address, options) {
    let response;
    try {
      response = await fetch(address, options);
    } catch {
      throw new ServiceGone("the service does not answer");
    }
    if (response.ok) return response;
    if (response.status === 401 && this.#token) {
      const token = this.#token; // the cookie ends with the service that gave it
      this.#token = null;
      await this.enter(token);
      return this.#fetched(address, options);
    }
    const told = await response.json().catch(() => ({}));
    const message = typeof told.detail === "string" ? told.detail : `the service answers with status ${response.status}`;
    throw new (KINDS[response.status] ?? Refused)(message);
  }
}
