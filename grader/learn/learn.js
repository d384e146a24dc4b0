// Keeps in the browser what the server has not saved, and answers the server's questions.
const learn = {
  POLL: 250, // milliseconds
  SETTLED: 2000, // without a change; then a text that is still not saved is sent as a whole
  ABANDONED: 5000, // the age at which the draft of another tab is taken up

  begin(id, key, label, digest) {
    this.component = getElement(id);
    this.prefix = `learn:${key}:`;
    this.tab = sessionStorage.learnTab ??= Math.random().toString(36).slice(2);
    this.base = digest;
    const content = document.querySelector(".editor .cm-content");
    content?.setAttribute("aria-label", label);
    if (content) Object.assign(content, { id: "editor", tabIndex: 0 });
    this.last = this.component.editor.state.doc;
    const drafts = this.takeDrafts();
    this.timer ??= setInterval(() => this.keep(), this.POLL);
    this.stopCompletion();
    return drafts;
  },
  // A list of completions takes Enter for itself; its sources are what a language has besides its grammar.
  async stopCompletion() {
    const { editor, language, languageConfig } = this.component;
    const support = await this.component.findLanguage(language).load();
    editor.dispatch({ effects: languageConfig.reconfigure(support.language) });
  },
  text() {
    return this.component.editor.state.doc.toString();
  },
  nameSliders() {
    // The part of a slider that has the focus is another one than the part that has the name.
    for (const part of document.querySelectorAll(".q-slider__track-container:not([aria-label])")) {
      const slider = part.closest(".q-slider");
      part.setAttribute("role", "group");
      part.setAttribute("aria-label", slider.getAttribute("aria-label") ?? "");
    }
  },
  // What is larger than its place can be moved with the keyboard, and only that is a stop of Tab.
  reachScrollers() {
    for (const part of document.querySelectorAll(".lesson pre, .lesson math[display=block], .verdict")) {
      const hides = part.scrollWidth > part.clientWidth || part.scrollHeight > part.clientHeight;
      if (hides) part.tabIndex = 0;
      else part.removeAttribute("tabindex");
    }
  },
  keep() {
    const doc = this.component.editor?.state.doc;
    if (!doc) return;
    if (doc !== this.last) {
      this.last = doc;
      this.changed = Date.now();
      this.pending = true;
      this.store();
    } else if (this.pending && Date.now() - this.changed > this.SETTLED) {
      this.changed = Date.now();
      emitEvent("learn_resync", this.text());
    }
  },
  store() {
    try {
      localStorage.setItem(this.prefix + this.tab, JSON.stringify({ text: this.text(), base: this.base, time: Date.now() }));
    } catch {} // a full or forbidden store: the server still saves
  },
  async saved(digest) {
    if (!this.component) return; // the file changed before this tab was ready: it begins with the newest
    this.base = digest;
    const bytes = new TextEncoder().encode(this.text());
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    const now = [...hash].map((b) => b.toString(16).padStart(2, "0")).join("");
    if (now === digest) {
      this.pending = false;
      this.last = this.component.editor.state.doc;
      localStorage.removeItem(this.prefix + this.tab);
    } else this.store();
  },
  takeDrafts() {
    const found = [];
    for (const name of Object.keys(localStorage)) {
      if (!name.startsWith(this.prefix)) continue;
      try {
        const draft = JSON.parse(localStorage.getItem(name));
        const own = name === this.prefix + this.tab;
        if (!own && Date.now() - draft.time < this.ABANDONED) continue;
        found.push({ text: draft.text, base: draft.base });
      } catch {} // not a draft of ours
      localStorage.removeItem(name);
    }
    return found;
  },
  isDark() {
    return document.body.classList.contains("body--dark");
  },
  say(lost, language) {
    document.documentElement.lang = language;
    this.reachScrollers();
    const [first, second] = document.querySelectorAll("#popup span");
    if (first) first.innerHTML = lost; // a sentence of ours
    if (second) second.textContent = "";
    return this.isDark();
  },
};

setInterval(() => {
  learn.nameSliders();
  learn.reachScrollers();
}, 500);
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "s") event.preventDefault();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !document.querySelector(".exercises.open")) return;
  const menu = document.querySelector(".menu");
  menu.click();
  menu.focus();
});
// A verdict is drawn anew while checks still run; what a person has unfolded stays unfolded.
const unfolded = new Set();
const nameOfFold = (fold) => fold.closest("[id]")?.id;
document.addEventListener(
  "toggle",
  ({ target }) => unfolded[target.open ? "add" : "delete"](nameOfFold(target)),
  true,
);
new MutationObserver((changes) => {
  for (const drawn of changes.flatMap((change) => [...change.addedNodes]))
    for (const fold of drawn.parentElement?.querySelectorAll(".verdict details") ?? [])
      if (drawn.contains(fold) && unfolded.has(nameOfFold(fold))) fold.open = true;
}).observe(document.documentElement, { childList: true, subtree: true });
// The value of a cell under the mouse, and the same cell of the maps beside it.
document.addEventListener("mouseover", (event) => {
  const maps = event.target.closest?.(".maps");
  document.querySelectorAll(".maps rect.same").forEach((cell) => cell.classList.remove("same"));
  if (!maps || event.target.tagName !== "rect") return;
  const at = [...event.target.parentElement.querySelectorAll("rect")].indexOf(event.target);
  for (const figure of maps.querySelectorAll("figure")) {
    const cell = figure.querySelectorAll("rect")[at];
    if (!cell) continue;
    cell.classList.add("same");
    let value = figure.querySelector(".value");
    if (!value) figure.append((value = Object.assign(document.createElement("p"), { className: "value" })));
    value.textContent = cell.querySelector("title")?.textContent ?? "";
  }
});
document.addEventListener("paint", (event) => emitEvent("learn_paint", event.detail));
