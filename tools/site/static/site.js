// A picture that leads to an animation or to a live page shows it in its place, once it is pressed.

const isPlain = (event) => !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);

function playOnPress(link) {
  const picture = link.querySelector("img");
  const still = picture.src;
  link.classList.add("plays");
  link.addEventListener("click", (event) => {
    if (!isPlain(event)) return;
    event.preventDefault();
    picture.src = link.classList.toggle("playing") ? link.href : still;
  });
}

const narrow = matchMedia("(max-width: 600px)"); // there a live page needs the whole screen

function comeAliveOnPress(link) {
  const frame = document.createElement("iframe");
  frame.className = "live";
  frame.title = link.querySelector("img").alt;
  frame.setAttribute("sandbox", "allow-scripts");
  const button = document.createElement("button");
  button.className = "live";
  link.tabIndex = -1; // the button does the same
  link.after(button);

  function show(isOpen) {
    if (isOpen) frame.src = link.href; // a closed page starts again
    (isOpen ? link : frame).replaceWith(isOpen ? frame : link);
    button.textContent = isOpen ? "■ Close" : "▶ Open";
    button.setAttribute("aria-label", `${isOpen ? "Close" : "Open"}: ${frame.title}`);
  }

  function press(event) {
    if (!isPlain(event)) return;
    event.preventDefault();
    if (narrow.matches) location.href = link.href;
    else show(link.isConnected);
  }

  link.addEventListener("click", press);
  button.addEventListener("click", press);
  show(false);
}

for (const link of document.querySelectorAll("article a")) {
  const picture = link.querySelector("img");
  if (!picture) continue;
  if (/\/live\/[^/]+\.html$/.test(link.pathname)) comeAliveOnPress(link);
  else if (link.pathname.endsWith(".webp") && link.href !== picture.src) playOnPress(link);
}

// For those who use no mouse: parts of the page have names, and what scrolls can be scrolled with the keyboard.

document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Pages");
document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");

function letScroll() {
  for (const part of document.querySelectorAll("article pre, .table-wrapper, div.math")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
}

letScroll();
addEventListener("resize", letScroll);
