// Shows the stored pictures of the setting that a person has chosen (docs/site/stored_plays.py).
const draw = ({ texts, settings }, at) => {
  const [text, ...numbers] = settings[at].split(" ");
  const page = document.createElement("div");
  page.innerHTML = texts[text].map((part, n) => part + (numbers[n] ?? "")).join("");
  return page;
};
// The number of the setting: the last control changes first.
const find = (controls) =>
  [...controls.querySelectorAll("input")].reduce((at, { dataset, type, checked, value, min, step }) => {
    const own = type === "checkbox" ? Number(checked) : Math.round((value - min) / step);
    return at * Number(dataset.steps) + own;
  }, 0);
// Of a painted grid, each row of the picture stands in the setting of that row alone.
const join = (stored, cells) => {
  const forms = 2 ** cells[0].length;
  const pages = cells.map((row, y) => draw(stored, y * forms + row.reduce((bits, on) => 2 * bits + Number(on), 0)));
  const rows = (page) => page.querySelectorAll(".cells tr:not(:first-child)");
  const said = new Set([...pages[0].querySelectorAll(".note")].map((note) => note.textContent));
  pages.slice(1).forEach((page, n) => {
    rows(pages[0])[n + 1].replaceWith(rows(page)[n + 1]);
    for (const note of page.querySelectorAll(".note")) {
      if (!said.has(note.textContent)) pages[0].append(note);
      said.add(note.textContent);
    }
  });
  return pages[0];
};
// Make `old` like `new`, element by element, so that what moves is seen to move.
const change = (old, page) => {
  if (old.nodeName !== page.nodeName || old.childNodes.length !== page.childNodes.length) return old.replaceWith(page);
  if (old.nodeType === Node.TEXT_NODE) return void (old.data === page.data || (old.data = page.data));
  for (const name of old.getAttributeNames()) page.hasAttribute(name) || old.removeAttribute(name);
  for (const { name, value } of page.attributes) old.getAttribute(name) === value || old.setAttribute(name, value);
  const [before, after] = [[...old.childNodes], [...page.childNodes]];
  before.forEach((child, n) => change(child, after[n]));
};
const show = (play, page) => {
  const pictures = play.querySelector(".pictures");
  page.className = "pictures";
  change(pictures, page);
};
for (const play of document.querySelectorAll(".play[data-stored]")) {
  const stored = fetch(play.dataset.stored).then((answer) => answer.json());
  play.querySelector(".controls").addEventListener("input", async ({ target, currentTarget }) => {
    const number = target.closest("label").querySelector("output");
    if (number) number.textContent = String(Number(target.value));
    show(play, draw(await stored, find(currentTarget)));
  });
  document.addEventListener("paint", async ({ detail }) => show(play, join(await stored, detail.cells)));
}
