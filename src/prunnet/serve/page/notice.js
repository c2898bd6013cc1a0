// What is wrong, in words, with a button that does something about it.

export class Notice {
  #box;
  #text;
  #button;
  #act = null;

  constructor(box) {
    this.#box = box;
    this.#text = box.querySelector("p");
    this.#button = box.querySelector("button");
    this.#button.addEventListener("click", () => (this.#act ? this.#act() : this.hide()));
  }

  /** `kind`: "problem" or "news". Without `act` the button closes the notice. */
  say(kind, text, button = "Close", act = null) {
    this.#act = act;
    this.#button.textContent = button;
    this.#box.className = `notice ${kind}`;
    this.#text.textContent = text;
    this.#box.hidden = false;
  }

  hide() {
    this.#box.hidden = true;
    this.#text.textContent = "";
  }
}
