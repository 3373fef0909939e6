// "Quiz me": a number of this stage is hidden, and its factors are shown. Within one percent is right.

import { isRight, parseTyped } from "../../../minigrad/graph/assets/answers.js";
import { announce, h } from "../../../minigrad/graph/assets/dom.js";
import { valueAt } from "./inspector.js";
import { placeKey } from "./matrix.js";
import { precise } from "./numbers.js";
import { stepRow } from "./output.js";

export function startQuiz(e) {
  if (!e.numbers && document.querySelector('#screen [data-key="numbers"]')) e.set({ numbers: true }); // it asks for one of them
  const cells = [...document.querySelectorAll("#screen table.numbers [data-key]")].filter(cell =>
    /[1-9]/.test(cell.textContent),
  ); // not those of 0 and −∞
  const askable = cells
    .map(cell => readKey(cell.dataset.key))
    .filter(place => !place.weight && !["lookup", "pixels"].includes(e.plan.get(place.name)?.kind));
  if (!askable.length) askable.push({ name: "logits", index: [stepRow(e), e.labels()[stepRow(e)]] }); // of a picture
  const place = askable[Math.floor(Math.random() * askable.length)];
  e.set({ quiz: { place, reply: "" }, cell: place });
  document.querySelector("td.asked")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  document.getElementById("answer")?.focus({ preventScroll: true });
}

function readKey(key) {
  const [kind, name, index] = key.split(":");
  return { name, index: index.split(",").map(Number), gradient: kind[1] === "g", weight: kind[0] === "w" };
}

export function quizForm(e) {
  const right = valueAt(e, e.quiz.place);
  return [
    h(
      "form",
      {
        class: "quiz",
        onsubmit: event => {
          event.preventDefault();
          const typed = parseTyped(new FormData(event.target).get("answer"));
          if (typed === null || Number.isNaN(typed))
            return e.set({ quiz: { ...e.quiz, reply: "Type a number, such as 0.25." } });
          if (!isRight(typed, right))
            return e.set({ quiz: { ...e.quiz, reply: typed > right ? "Smaller." : "Larger." } });
          e.set({ quiz: null });
          announce(`Right: ${precise(right)}`);
        },
      },
      h("label", { for: "answer" }, "What is this number?"),
      h("input", {
        id: "answer",
        name: "answer",
        inputmode: "decimal",
        autocomplete: "off",
        "data-key": `answer:${placeKey(e.quiz.place)}`,
      }),
      h("button", { type: "submit", class: "primary", "data-key": "check" }, "Check"),
      h("button", { type: "button", "data-key": "show", onclick: () => e.set({ quiz: null }) }, "Show it"),
      h("p", { class: "reply", role: "status" }, e.quiz.reply),
    ),
  ];
}
