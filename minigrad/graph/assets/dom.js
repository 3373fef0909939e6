// DOM elements, of this page and of others. Text is always text: nothing that is shown is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `h("p", { class: "hint" }, "text", child)`; `onclick` and its like are listeners. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
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
function flat(children) {
  return children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false);
}

/** Tell screen readers. */
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}
