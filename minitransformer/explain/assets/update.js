// New content in the elements that are already there: a slider that is dragged, a text that is being composed, the
// focus and the place to which a table was scrolled outlast it.

/** Gives an element new children. Of those that it has, the ones of the same kind stay and take over what is new. */
export function update(parent, children) {
  const active = document.activeElement;
  let next = parent.firstChild; // of the old ones, the first that is not yet compared
  const removeNext = () => {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  };
  for (const fresh of children) {
    let same = next;
    while (same && !isSameKind(same, fresh)) same = same.contains(active) ? null : same.nextSibling;
    if (!same) {
      parent.insertBefore(fresh, next);
      continue;
    }
    while (next !== same) removeNext();
    next = same.nextSibling;
    become(same, fresh);
  }
  while (next) removeNext();
}

/** Elements of a name, of a key and with the same events; a canvas is drawn anew. */
function isSameKind(a, b) {
  const events = ({ handlers = {} }) => String(Object.keys(handlers));
  const key = x => x.dataset?.key ?? x.control?.dataset.key; // of a label: its control's
  return a.nodeName === b.nodeName && a.nodeName !== "CANVAS" && key(a) === key(b) && events(a) === events(b);
}

function become(element, fresh) {
  if (!element.attributes) {
    if (element.data !== fresh.data) element.data = fresh.data;
    return;
  }
  const isNewValue =
    element.type === "range" || element.getAttribute("value") !== fresh.getAttribute("value");
  for (const { name } of [...element.attributes])
    if (!fresh.hasAttribute(name)) element.removeAttribute(name);
  for (const { name, value } of fresh.attributes) {
    if (element.getAttribute(name) === value) continue;
    if (name === "style")
      element.style.cssText = value; // the page's policy allows no style as an attribute
    else element.setAttribute(name, value);
  }
  element.handlers = fresh.handlers;
  update(element, [...fresh.childNodes]);
  if (
    element.nodeName === "SELECT" ||
    (element.nodeName === "INPUT" && isNewValue && element.value !== fresh.value)
  )
    element.value = fresh.value;
  if (element.type === "checkbox") element.checked = fresh.checked;
}
