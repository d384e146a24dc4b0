// Painting a mask: the cell under the mouse is toggled, and those it is drawn over become the same.
let painting = null;
const paint = (cell, on) => {
  if (cell.ariaPressed === String(on)) return;
  cell.ariaPressed = String(on);
  const table = cell.closest(".painted");
  const cells = [...table.tBodies[0].rows].map((row) => [...row.querySelectorAll("button")].map((b) => b.ariaPressed === "true"));
  document.dispatchEvent(new CustomEvent("paint", { detail: { name: table.dataset.name, cells } }));
};
document.addEventListener("pointerdown", (event) => {
  const cell = event.target.closest?.(".painted button");
  if (!cell) return;
  event.target.releasePointerCapture?.(event.pointerId);
  painting = cell.ariaPressed !== "true";
  paint(cell, painting);
});
document.addEventListener("pointermove", (event) => {
  const cell = painting === null ? null : document.elementFromPoint(event.clientX, event.clientY)?.closest(".painted button");
  if (cell) paint(cell, painting);
});
document.addEventListener("pointerup", () => (painting = null));
document.addEventListener("keydown", (event) => {
  const cell = event.target.closest?.(".painted button");
  if (cell && (event.key === " " || event.key === "Enter")) {
    event.preventDefault();
    paint(cell, cell.ariaPressed !== "true");
  }
});
