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

function comeAliveOnPress(link) {
  link.classList.add("plays");
  link.addEventListener("click", (event) => {
    if (!isPlain(event)) return;
    event.preventDefault();
    const frame = document.createElement("iframe");
    frame.className = "live";
    frame.title = link.title;
    frame.setAttribute("sandbox", "allow-scripts");
    frame.src = link.href;
    const alone = document.createElement("a");
    alone.href = link.href;
    alone.textContent = "The page alone";
    link.replaceWith(frame, alone);
  });
}

for (const link of document.querySelectorAll("article a")) {
  const picture = link.querySelector("img");
  if (!picture) continue;
  if (link.classList.contains("live")) comeAliveOnPress(link);
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
