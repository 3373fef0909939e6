// Text to token ids and back, as minitransformer/text does with Hugging Face's library.
//
// A tokenizer has a layout ("word", "spaced word", "bpe", "byte bpe", "wordpiece" or "char"): how a text is
// normalized, how it is split into words, how a word becomes tokens, and how tokens become text again. The
// ids are Python's for any text of Unicode 16; the library does not know the letters of later ones.

/** \s of the library, and what Python's `strip` takes away. */
const SPACE = "\\p{White_Space}";
const STRIPPED = new RegExp(`^[${SPACE}\\x1c-\\x1f]+|[${SPACE}\\x1c-\\x1f]+$`, "gu");

function strip(text) {
  return text.replace(STRIPPED, "");
}

// ---------------------------------------------------------------- words

/** A word with inner hyphens and an elision's apostrophe; a French mark after a no-break space; any mark. */
const WORD = new RegExp(
  `[\\p{L}\\p{N}_]+(?:-[\\p{L}\\p{N}_]+)*'?|\\u00A0[?!:;]|[^${SPACE}\\p{L}\\p{N}_]`,
  "gu",
);

/** Scripts without spaces between words: there, a token is one character with its accents. */
const UNSPACED =
  "\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff\\u3005-\\u3007\\u3040-\\u30ff" +
  "\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\uff66-\\uff9f\\u{20000}-\\u{3ffff}";
const LETTERS = `[[\\p{L}\\p{N}\\p{M}_\\u200c\\u200d]--[${UNSPACED}]]+`;

/** A word, or a character, with the space before it. */
const SPACED_WORD = new RegExp(
  ` ?(?:${LETTERS}(?:-${LETTERS})*(?:['’](?=\\p{L}))?|\\P{White_Space}\\p{M}*)|${SPACE}`,
  "gv",
);

/** Letters, digits or marks with the space before them, 64 at most: byte pairs are merged within these. */
const SPACED_RUN = new RegExp(
  " ?[\\p{L}\\p{M}\\u200c\\u200d]{1,64}| ?\\p{N}{1,64}| ?[^\\p{White_Space}\\p{L}\\p{M}\\p{N}]{1,64}" +
    "|\\p{White_Space}{1,64}(?!\\P{White_Space})|\\p{White_Space}",
  "gu",
);

/** Punctuation: ASCII's marks, and what Unicode 8, the library's, calls so: without the marks since. */
const SINCE = [
  "\\u061d\\u09fd-\\u0a76\\u0c77-\\u0c84\\u1b4e-\\u1b4f\\u1b7d-\\u1b7f\\u2e43-\\u2e5d\\u{10d6e}-\\u{10f89}",
  "\\u{113d4}-\\u{1145d}\\u{11660}-\\u{116b9}\\u{1183b}-\\u{11fff}\\u{12ff1}-\\u{12ff2}\\u{16d6d}-\\u{16fe2}",
  "\\u{1e5ff}-\\u{1e95f}",
].join("");
const PUNCTUATION = `[\\p{P}$+<=>^\`\\|~\\u166d\\u{111c9}]--[${SINCE}]`;
const BETWEEN_PUNCTUATION = new RegExp(`[${PUNCTUATION}]|[^${PUNCTUATION}]+`, "gv");

/** One space between words, none before a mark or after an apostrophe, one before a French ? ! : ;. */
function joinWords(words) {
  return words
    .join(" ")
    .replace(/ ([.,?!:;)…])/g, "$1")
    .replace(/(['(]) /g, "$1")
    .replaceAll(" \u00a0", " ")
    .replaceAll("\u00a0", " ");
}

// ---------------------------------------------------------------- pieces of words

/** Merges neighbours, those of the earliest merge first, until no pair has one (Sennrich et al. 2016). */
function mergePairs(symbols, ranks) {
  const parts = [...symbols];
  while (true) {
    let best = Infinity;
    let place = -1;
    for (let i = 0; i + 1 < parts.length; i++) {
      const rank = ranks.get(pairKey(parts[i], parts[i + 1])) ?? Infinity;
      if (rank < best) [best, place] = [rank, i];
    }
    if (place < 0) return parts;
    parts.splice(place, 2, parts[place] + parts[place + 1]);
  }
}

function pairKey(first, second) {
  return JSON.stringify([first, second]);
}

/** The longest known piece of a word first, "##" before a piece that does not start it (Wu et al. 2016). */
function longestPieces(word, vocabulary, unknown) {
  const characters = [...word];
  if (characters.length > 100) return [unknown];
  const pieces = [];
  for (let from = 0; from < characters.length;) {
    let to = characters.length;
    const piece = () => (from ? "##" : "") + characters.slice(from, to).join("");
    while (to > from && !vocabulary.has(piece())) to--;
    if (to === from) return [unknown];
    pieces.push(piece());
    from = to;
  }
  return pieces;
}

/** GPT-2's character for each byte: itself if it is a visible one, else one from U+0100 on. */
const BYTE_CHARACTERS = (() => {
  const isVisible = byte => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let others = 0;
  const code = byte => (isVisible(byte) ? byte : 256 + others++);
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(code(byte)));
})();
const BYTE_OF = new Map(BYTE_CHARACTERS.map((character, byte) => [character, byte]));

function bytesAsCharacters(text) {
  return Array.from(new TextEncoder().encode(text), byte => BYTE_CHARACTERS[byte]);
}

function charactersAsText(characters) {
  return new TextDecoder().decode(Uint8Array.from(characters, c => BYTE_OF.get(c)));
}

/** English contractions and marks without the space before them, as the library's decoder of word pieces. */
function cleanedUp(piece) {
  const changes = [
    [" .", "."],
    [" ?", "?"],
    [" !", "!"],
    [" ,", ","],
    [" ' ", "'"],
    [" n't", "n't"],
    [" 'm", "'m"],
    [" do not", " don't"],
    [" 's", "'s"],
    [" 've", "'ve"],
    [" 're", "'re"],
  ];
  return changes.reduce((text, [before, after]) => text.replaceAll(before, after), piece);
}

/** BERT's text: no control characters, spaces around Chinese ones, and lower case without accents if it is uncased. */
function bertNormal(text, { lowercase, stripAccents, chinese }) {
  const clean = text.replace(/[\0\ufffd]|(?![\t\n\r])\p{C}/gu, "");
  const spaced = chinese ? clean.replace(CHINESE, " $& ") : clean;
  const plain = stripAccents ? spaced.normalize("NFD").replace(/\p{Mn}/gu, "") : spaced;
  return lowercase ? [...plain].map(character => character.toLowerCase()).join("") : plain;
}

const CHINESE =
  /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/gu;

// ---------------------------------------------------------------- layouts

/** `words` of a text, the `tokens` of a word, and the `text` of tokens. `t` is the tokenizer. */
const LAYOUTS = {
  word: {
    words: text => {
      const normal = text
        .normalize("NFC")
        .replaceAll("\u2019", "'")
        .replace(/ ([?!:;])/g, "\u00a0$1");
      return normal.match(WORD) ?? [];
    },
    tokens: word => [word],
    text: joinWords,
  },
  "spaced word": {
    words: text => (text && ` ${text}`).match(SPACED_WORD) ?? [],
    tokens: word => [word],
    text: tokens => tokens.join("").replace(/^ /, ""),
  },
  bpe: {
    words: text => {
      if (!text) return [];
      const spaced = text
        .normalize("NFC")
        .replaceAll(" ", "▁")
        .replace(/^(?!▁)/, "▁");
      return spaced.match(/▁?[^▁]+|▁/g).flatMap(word => word.match(BETWEEN_PUNCTUATION));
    },
    tokens: (word, t) =>
      mergePairs(
        [...word].map(c => (t.ids.has(c) ? c : t.unknown)),
        t.ranks,
      ),
    text: ([first = "", ...others]) => [first.replaceAll("▁", ""), ...others].join("").replaceAll("▁", " "),
  },
  "byte bpe": {
    words: text => (text && ` ${text}`).match(SPACED_RUN) ?? [],
    tokens: (word, t) => mergePairs(bytesAsCharacters(word), t.ranks),
    text: tokens => charactersAsText(tokens.join("")).replace(/^ /, ""),
  },
  wordpiece: {
    words: (text, { bert }) => {
      const words = (bert ? bertNormal(text, bert) : text.normalize("NFC")).match(/\P{White_Space}+/gu) ?? [];
      return words.flatMap(word => word.match(BETWEEN_PUNCTUATION));
    },
    tokens: (word, t) => longestPieces(word, t.ids, t.unknown),
    text: tokens => {
      const [first = "", ...others] = tokens;
      const spaced = others.map(piece => (piece.startsWith("##") ? piece.slice(2) : ` ${piece}`));
      return [first, ...spaced].map(cleanedUp).join("");
    },
  },
  char: {
    words: text => [...text],
    tokens: word => [word],
    text: tokens => tokens.join(""),
  },
};

// ---------------------------------------------------------------- the tokenizer

/** A tokenizer of a layout, a list of tokens by id, and merges. `special` are the ids that `decode` skips. */
function createTokenizer({ layout, tokens, merges = [], special, unk_id, bert = null }) {
  if (!(layout in LAYOUTS)) {
    const known = Object.keys(LAYOUTS).join(", ");
    throw new Error(`A tokenizer of the layout ${layout} does not run in the page.\nThese do: ${known}.`);
  }
  const { words: wordsOf, tokens: split, text } = LAYOUTS[layout];
  const words = text => wordsOf(text, t);
  const t = {
    bert, // how a pretrained BERT reads a text
    ids: new Map(tokens.map((token, id) => [token, id])),
    ranks: new Map(merges.map(([first, second], rank) => [pairKey(first, second), rank])),
    unknown: tokens[unk_id],
  };
  const skipped = new Set(special);

  /** The tokens of a word: the id of each, and the text that it stands for. */
  const wordTokens = word => {
    const pieces = split(word, t);
    const texts = textsOf(word, pieces, t);
    return pieces.map((piece, i) => ({
      id: t.ids.get(piece) ?? unk_id ?? refuse(piece, tokens),
      text: texts[i],
    }));
  };
  return {
    layout,
    idOf: token => t.ids.get(token),

    /** Ids and tokens of a text, what stands for each in the text (`pieces`), and which are `unknown`. */
    encode: given => {
      const found = words(given).flatMap(wordTokens);
      const ids = found.map(({ id }) => id);
      const unknown = [...ids.keys()].filter(i => ids[i] === unk_id);
      return { ids, tokens: ids.map(id => tokens[id]), pieces: found.map(each => each.text), unknown };
    },

    /** The tokens of a word by itself; one without tokens is unknown. */
    encodeWord: word => {
      const found = words(word).flatMap(wordTokens);
      return found.length ? found : [{ id: unk_id, text: word }];
    },

    /** The tokens of a text in parts, of which each second one is a special token: as if it were a word there. */
    encodeMarked: parts => {
      const special = mark => ({ id: t.ids.get(mark), text: mark });
      const marks = parts.filter((_, i) => i % 2).map(special);
      const texts = parts.filter((_, i) => i % 2 === 0);
      if (!marks.length) return words(texts[0]).flatMap(wordTokens);
      if (layout === "char")
        return parts.flatMap((part, i) => (i % 2 ? [special(part)] : words(part).flatMap(wordTokens)));
      const isWord = layout.endsWith("word");
      const beside = part => {
        // a space before it, and an apostrophe after it, belong to the word in its place
        if (["", " ", "▁"].includes(part) || (isWord && ["'", "’"].includes(part))) return [];
        return isWord
          ? (part.match(layout === "word" ? WORD : SPACED_WORD) ?? []).flatMap(wordTokens)
          : wordTokens(part);
      };
      const letter = standIn(texts.join(""));
      return words(texts.join(letter)).flatMap(word => {
        const [first, ...others] = word.split(letter);
        if (!others.length) return wordTokens(first);
        return [...beside(first), ...others.flatMap(other => [marks.shift(), ...beside(other)])];
      });
    },

    decode: ids => text([...ids].filter(id => !skipped.has(id)).map(id => tokens[id])),
  };
}

/** What each piece of a word stands for: itself, or if it is unknown the word, or the character, that is not known. */
function textsOf(word, pieces, t) {
  const isUnknown = piece => piece === t.unknown || !t.ids.has(piece);
  if (pieces.length === 1) return [isUnknown(pieces[0]) ? word.replace(/^[▁ ]/, "") || word : pieces[0]];
  const characters = [...word];
  return pieces.map(piece => {
    const own = characters.splice(0, isUnknown(piece) ? 1 : [...piece].length).join("");
    return isUnknown(piece) ? own : piece;
  });
}

function refuse(character, tokens) {
  const known = [...tokens].sort().join("");
  throw new Error(`The character ${JSON.stringify(character)} is not in the vocabulary.\nUse only: ${known}`);
}

/** The tokens of a text in which the `marks`, such as [MASK], are special tokens. */
function markedTokens(tokenizer, text, marks) {
  const escaped = marks.map(mark => mark.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return tokenizer.encodeMarked(marks.length ? text.split(new RegExp(`(${escaped.join("|")})`)) : [text]);
}

/** A letter that the text does not have, of a script (Vai) that is rare. */
function standIn(text) {
  for (let code = 0xa500; code < 0xa60c; code++) {
    if (!text.includes(String.fromCodePoint(code))) return String.fromCodePoint(code);
  }
  return "\ua500";
}
