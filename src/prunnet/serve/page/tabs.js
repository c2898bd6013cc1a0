// Ways to ask, one at a time: a list of tabs with their panels.

export class Tabs {
  #tabs;
  #chosen;
  #shown;

  /** `chosen` is called with the name of the tab that is shown from now on. */
  constructor(list, chosen) {
    this.#tabs = [...list.querySelectorAll("[role=tab]")];
    this.#chosen = chosen;
    list.addEventListener("click", (event) => {
      const tab = event.target.closest("[role=tab]");
      if (tab) this.choose(tab.dataset.way);
    });
    list.addEventListener("keydown", (event) => this.#key(event));
  }

  /** Offer the ways named, and show the first, unless the visitor has chosen another of them. */
  set offered(ways) {
    for (const tab of this.#tabs) tab.hidden = !ways.includes(tab.dataset.way);
    if (!ways.includes(this.#shown)) this.choose(ways[0]);
  }

  choose(way) {
    this.#shown = way;
    for (const tab of this.#tabs) {
      const shown = tab.dataset.way === way;
      tab.setAttribute("aria-selected", String(shown));
      tab.tabIndex = shown ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !shown;
    }
    this.#chosen(way);
  }

  #key(event) {
    const shown = this.#tabs.filter((tab) => !tab.hidden);
    const at = shown.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const next = shown.at(to % shown.length);
    next.focus();
    this.choose(next.dataset.way);
  }
}
