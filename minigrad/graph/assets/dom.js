// DOM elements, of this page and of others. Text is always text: nothing that is shown is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `h("p", { class: "hint" }, "text", child)`, or `h("p", "text")`; `onclick` and its like are listeners. */
export function h(tag, ...content) {
  return made(document.createElement(tag), content);
}

/** An SVG element. */
export function s(tag, ...content) {
  return made(document.createElementNS(SVG, tag), content);
}

function made(element, [first, ...rest]) {
  return first?.constructor === Object ? filled(element, first, rest) : filled(element, {}, [first, ...rest]);
}

export function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) listen(element, name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...flat(children));
  return element;
}

/** A listener that can be exchanged later: each element has its `handlers` by the type of event. */
function listen(element, type, handler) {
  element.handlers = { ...element.handlers, [type]: handler };
  element.addEventListener(type, event => element.handlers[type](event));
}

/** The elements and texts of nested lists, without missing ones. */
export function flat(children) {
  return children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false);
}

/** Tell screen readers. */
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}

/** Arrow keys walk from button to button of a table's cells. */
export function walkCells(event) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const step = steps[event.key];
  const td = event.target.closest("td");
  if (!step || !td) return;
  const row = td.parentElement;
  const body = row.parentElement;
  const next =
    body.rows[row.sectionRowIndex + step[0]]?.cells[td.cellIndex + step[1]]?.querySelector("button");
  event.preventDefault();
  event.stopPropagation();
  if (!next) return;
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
