// The page comes to life.

document.addEventListener("keydown", onKey);
addEventListener("beforeprint", () => view.print(true));
addEventListener("afterprint", () => view.print(false));
renderToolbar();
render();
view.fit();
