// Sphinx's search gives most results the same score. Here come first names of the reference and headings that
// are what was searched, then sections whose headings have all the words, then pages that have them anywhere.
// Excerpts show prose, not code.

const lettersOf = (text) => text.toLowerCase().replace(/[^\p{Letter}\p{Number}]/gu, "");
const query = new URLSearchParams(location.search).get("q") ?? "";
const stemmer = new Stemmer();

/** Whether a heading has all the words, or, as "layernorm", their letters. */
function matches(heading, words) {
  const stems = new Set(splitQuery(heading.toLowerCase()).map((word) => stemmer.stemWord(word)));
  const letters = lettersOf(query);
  return (
    (words.size && [...words].every((word) => stems.has(word))) ||
    (letters.length > 5 && lettersOf(heading).includes(letters))
  );
}

function sectionsWith(words) {
  const { alltitles, titles, docnames, filenames } = Search._index;
  return Object.entries(alltitles)
    .filter(([heading]) => matches(heading, words))
    .flatMap(([heading, places]) =>
      places.map(([page, id]) => {
        const isPage = titles[page] === heading;
        const title = isPage ? heading : `${titles[page]} > ${heading}`;
        return [docnames[page], title, id === null ? "" : `#${id}`, null, 0, filenames[page], "title"];
      }),
    );
}

const pagesWith = Search.performTermsSearch;
Search.performTermsSearch = (words, excluded) => [...pagesWith(words, excluded), ...sectionsWith(words)];

/** Of pages that match alike, those that explain come first, collections of all subjects last. */
function priority(page) {
  if (/^start$/.test(page)) return 3;
  if (/^(documents|contributing|changelog|readme|security|code_of_conduct)$/.test(page)) return -18;
  if (/^(api|ops)\b/.test(page)) return -15;
  return page.startsWith("lessons/") ? -12 : 0;
}

Scorer.score = ([page, title, , description, score, , kind]) => {
  if (kind === "object") {
    if (score < Scorer.objNameMatch + Scorer.objPrio[1]) return 4; // only a part of the name
    return /^Python (function|class)/.test(description) ? 95 : 50;
  }
  if (kind !== "title") return score + priority(page);
  const heading = title.replace(/^.*? > /, ""); // without the title of its page
  if (lettersOf(heading) === lettersOf(query)) return 200 + priority(page);
  return 70 - splitQuery(heading).length + (title.includes(" > ") ? 0 : 10) + priority(page);
};

Search.htmlToText = (html, anchor) => {
  const page = new DOMParser().parseFromString(html, "text/html");
  page.querySelectorAll("pre, script, style, h1, h2, h3, .headerlink").forEach((part) => part.remove());
  const place = page.getElementById(anchor.slice(1))?.closest("section, dl");
  return place?.textContent.trim() || page.querySelector("[role=main]").textContent;
};

const nothingFound =
  "Your search did not match any documents. Please make sure that all words are spelled correctly and " +
  "that you've selected enough categories.";
Documentation.TRANSLATIONS[nothingFound] = "No page has all these words. Try fewer or other words.";
