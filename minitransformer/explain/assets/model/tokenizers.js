// Text to token ids and back, as minitransformer/text does with Hugging Face's library.
//
// A tokenizer has a layout ("word", "spaced word", "bpe", "byte bpe", "wordpiece", "char" or, if a tokenizer.json
// describes it, "parts"): how a text is normalized, how it is split into words, how a word becomes tokens, and
// how tokens become text again. The ids are Python's for any text of Unicode 16; the library does not know the
// letters of later ones. Its normal forms are those of Unicode 9: it leaves about 170 later characters as they are.

/** \s of the library, and what Python's `strip` takes away. */
const SPACE = "\\p{White_Space}";
const STRIPPED = new RegExp(`^[${SPACE}\\x1c-\\x1f]+|[${SPACE}\\x1c-\\x1f]+$`, "gu");

export function strip(text) {
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

/**
 * Merges neighbours, those with the lowest rank first, until no pair has one (Sennrich et al. 2016). `rankOf` is
 * the rank of a pair: the number of its merge.
 */
function mergePairs(symbols, rankOf) {
  const parts = [...symbols];
  const rankAt = i => (i >= 0 && i + 1 < parts.length ? rankOf(parts[i], parts[i + 1]) : Infinity);
  const ranks = parts.map((_, i) => rankAt(i));
  while (true) {
    let best = Infinity;
    let place = -1;
    for (let i = 0; i < ranks.length; i++) if (ranks[i] < best) [best, place] = [ranks[i], i];
    if (place < 0) return parts;
    parts.splice(place, 2, parts[place] + parts[place + 1]);
    ranks.splice(place, 2, rankAt(place));
    if (place > 0) ranks[place - 1] = rankAt(place - 1);
  }
}

/** The rank of each pair of a list of merges. */
function ranksOf(merges) {
  const key = (first, second) => `${first.length} ${first}${second}`;
  const ranks = new Map(merges.map(([first, second], rank) => [key(first, second), rank]));
  return (first, second) => ranks.get(key(first, second)) ?? Infinity;
}

/** The longest known piece of a word first, "##" before a piece that does not start it (Wu et al. 2016). */
function longestPieces(word, vocabulary, unknown, { prefix = "##", longest = 100 } = {}) {
  const characters = [...word];
  if (characters.length > longest) return [unknown];
  const pieces = [];
  for (let from = 0; from < characters.length;) {
    let to = characters.length;
    const piece = () => (from ? prefix : "") + characters.slice(from, to).join("");
    while (to > from && !vocabulary.has(piece())) to--;
    if (to === from) return [unknown];
    pieces.push(piece());
    from = to;
  }
  return pieces;
}

/**
 * The pieces with the largest sum of log-probabilities (Kudo 2018): for each end, the best path that leads there.
 * A character that is no piece is unknown, and so is a run of them.
 */
function likeliestPieces(word, { pieces, longest, unknown, penalty, round }) {
  const characters = [...word];
  const best = [{ score: 0, from: 0, isUnknown: false }];
  for (let from = 0; from < characters.length; from++) {
    const reach = (to, score, isUnknown) => {
      const sum = round(score + best[from].score);
      if (!best[to] || sum > best[to].score) best[to] = { score: sum, from, isUnknown };
    };
    let piece = "";
    for (let to = from + 1; to <= Math.min(from + longest, characters.length); to++) {
      piece += characters[to - 1];
      const score = pieces.get(piece);
      if (score !== undefined) reach(to, score, piece === unknown);
      else if (to === from + 1) reach(to, penalty, true);
    }
  }
  const found = [];
  let isAfterUnknown = false;
  for (let to = characters.length; to > 0; to = best[to].from) {
    const { from, isUnknown } = best[to];
    const piece = characters.slice(from, to).join("");
    if (isUnknown && isAfterUnknown) found[0] = piece + found[0];
    else found.unshift(piece);
    isAfterUnknown = isUnknown;
  }
  return found;
}

/** The pieces of a text's bytes, <0x00> to <0xFF>. */
function bytePieces(text) {
  const hex = byte => byte.toString(16).toUpperCase().padStart(2, "0");
  return Array.from(new TextEncoder().encode(text), byte => `<0x${hex(byte)}>`);
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
  return textOfBytes(Array.from(characters, c => BYTE_OF.get(c)));
}

/** The text of bytes; with U+FFFD for those that are no characters, or with `fatal` null if there are any. */
function textOfBytes(bytes, fatal = false) {
  try {
    return new TextDecoder("utf-8", { ignoreBOM: true, fatal }).decode(Uint8Array.from(bytes));
  } catch {
    return null;
  }
}

/** The number of bytes of a character, from its first. */
function bytesOfCharacter(first) {
  return first < 128 ? 1 : first < 224 ? 2 : first < 240 ? 3 : 4;
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
  return lowercase ? lowerCase(plain) : plain;
}

const CHINESE =
  /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/gu;

// ---------------------------------------------------------------- the parts of a pretrained tokenizer

/** What a step of the normalizer makes of a text. Steps have the names and the settings of a tokenizer.json. */
const NORMALIZERS = {
  NFC: text => text.normalize("NFC"),
  NFD: text => text.normalize("NFD"),
  NFKC: text => text.normalize("NFKC"),
  NFKD: text => text.normalize("NFKD"),
  Lowercase: text => lowerCase(text),
  StripAccents: text => text.replace(/\p{Mn}/gu, ""),
  Prepend: (text, { prepend }) => text && prepend + text,
  Replace: (text, { pattern, content }) => text.replace(pattern, () => content),
  Strip: (text, { strip_left, strip_right }) => {
    const start = strip_left ? text.replace(/^\p{White_Space}+/u, "") : text;
    return strip_right ? start.replace(/\p{White_Space}+$/u, "") : start;
  },
  BertNormalizer: bertNormal,
  Precompiled: replaceGraphemes,
  SentencePiece: sentencePieceNormal,
};

/** What a step makes of the words of a text: at first, the whole text. */
const SPLITTERS = {
  Split: (words, { pattern, behavior, invert }) =>
    words.flatMap(word => splitAt(word, pattern, behavior, invert)),
  Punctuation: words => words.flatMap(word => word.match(BETWEEN_PUNCTUATION) ?? []),
  PrefixSpace: words => words.map(word => (word.startsWith(" ") ? word : ` ${word}`)),
  ByteLevel: words => words.map(word => bytesAsCharacters(word).join("")),
  Metaspace: (words, { replacement, prepend_scheme, split }) =>
    words.flatMap((word, i) => {
      const spaced = word.replaceAll(" ", replacement);
      const isPrefixed = prepend_scheme === "always" || (prepend_scheme === "first" && i === 0);
      const text = isPrefixed && !spaced.startsWith(replacement) ? replacement + spaced : spaced;
      return split === false ? text : text.split(new RegExp(`(?=${replacement})`, "u"));
    }),
};

/** The pieces of a word. What is not in the vocabulary is a piece, too, which is unknown. */
const MODELS = {
  BPE: (word, { vocabulary, rankOf, ...model }) => {
    if (model.ignore_merges && vocabulary.has(word)) return [word];
    const symbols = [];
    let isAfterUnknown = false;
    for (const character of word) {
      const isKnown = vocabulary.has(character);
      const bytes = !isKnown && model.byte_fallback ? bytePieces(character) : [null];
      const known = isKnown ? [character] : bytes.every(byte => vocabulary.has(byte)) ? bytes : null;
      if (known) symbols.push(...known);
      else if (model.unknown === null) continue;
      else if (model.fuse_unk && isAfterUnknown) symbols[symbols.length - 1] += character;
      else symbols.push(character);
      isAfterUnknown = !known;
    }
    return mergePairs(symbols, rankOf);
  },
  SentencePieceBPE: (word, { pieces, byte_fallback }) => {
    const found = mergePairs([...word], (first, second) => -(pieces.get(first + second) ?? -Infinity));
    const isKnown = piece => pieces.has(piece);
    return runsOfUnknown(found, isKnown).flatMap(run =>
      isKnown(run) || !byte_fallback ? run : bytePieces(run),
    );
  },
  Unigram: (word, model) => {
    const { pieces, vocabulary, byte_fallback, refused = [], unknown } = model;
    const bytesOf = piece => {
      const bytes = bytePieces(piece);
      return bytes.every(byte => vocabulary.has(byte)) ? bytes : [unknown];
    };
    const isByBytes = piece => refused.includes(piece) || (byte_fallback && !pieces.has(piece));
    return likeliestPieces(word, model).flatMap(piece => (isByBytes(piece) ? bytesOf(piece) : piece));
  },
  WordPiece: (word, { vocabulary, unknown, ...model }) => longestPieces(word, vocabulary, unknown, model),
};

/** What a step makes of tokens on the way to a text: at the end, they are joined. */
const DECODERS = {
  ByteLevel: tokens => {
    const encoder = new TextEncoder();
    const bytes = token => {
      const found = Array.from(token, c => BYTE_OF.get(c));
      return found.includes(undefined) ? [...encoder.encode(token)] : found;
    };
    return [textOfBytes(tokens.flatMap(bytes))];
  },
  Metaspace: (tokens, { replacement, prepend_scheme }) =>
    tokens.map((token, i) => token.replaceAll(replacement, i === 0 && prepend_scheme !== "never" ? "" : " ")),
  WordPiece: (tokens, { prefix, cleanup }) =>
    tokens.map((token, i) => {
      const spaced = i === 0 ? token : token.startsWith(prefix) ? token.slice(prefix.length) : ` ${token}`;
      return cleanup ? cleanedUp(spaced) : spaced;
    }),
  ByteFallback: tokens =>
    joinBytes(tokens, bytes => textOfBytes(bytes, true) ?? "\ufffd".repeat(bytes.length)),
  Fuse: tokens => [tokens.join("")],
  Replace: (tokens, { pattern, content }) => tokens.map(token => token.replace(pattern, () => content)),
  Strip: (tokens, { content, start, stop }) =>
    tokens.map(token => {
      const characters = [...token];
      for (let i = 0; i < start && characters[0] === content; i++) characters.shift();
      for (let i = 0; i < stop && characters.at(-1) === content; i++) characters.pop();
      return characters.join("");
    }),
  SentencePiece: (tokens, { strips, all }) => {
    let text = "";
    let isStart = strips;
    for (const token of joinBytes(tokens, textOfEach)) {
      const hasSpace = isStart && token.startsWith("▁");
      text += (hasSpace ? token.slice(1) : token).replaceAll("▁", " ");
      isStart &&= text === "" && (all || !hasSpace);
    }
    return [text];
  },
  StripText: tokens => [strip(tokens.join(""))],
};

/** Runs of tokens such as <0xE2>, as the text of their bytes. */
function joinBytes(tokens, textOf) {
  const found = [];
  let bytes = [];
  const end = () => {
    if (bytes.length) found.push(textOf(bytes));
    bytes = [];
  };
  for (const token of tokens) {
    const byte = /^<0x([0-9A-F]{2})>$/.exec(token);
    if (byte) bytes.push(parseInt(byte[1], 16));
    else {
      end();
      found.push(token);
    }
  }
  end();
  return found;
}

/** The text of bytes, with U+FFFD for each byte that is not of a character. */
function textOfEach(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length;) {
    const size = bytesOfCharacter(bytes[at]);
    const character = textOfBytes(bytes.slice(at, at + size), true);
    text += character ?? "\ufffd";
    at += character === null ? 1 : size;
  }
  return text;
}

/** Pieces, where unknown ones that are neighbours are one. */
function runsOfUnknown(pieces, isKnown) {
  return pieces.reduce((found, piece, i) => {
    if (i && !isKnown(piece) && !isKnown(pieces[i - 1])) found.push(found.pop() + piece);
    else found.push(piece);
    return found;
  }, []);
}

/** What is between the matches of a pattern, and the matches too if they are isolated. */
function splitAt(word, pattern, behavior, invert) {
  const found = [];
  const add = (from, to, isMatch) => {
    if (to > from && (behavior === "Isolated" || isMatch === invert)) found.push(word.slice(from, to));
  };
  let at = 0;
  for (const { 0: match, index } of word.matchAll(pattern)) {
    add(at, index, false);
    add(index, index + match.length, true);
    at = index + match.length;
  }
  add(at, word.length, false);
  return found;
}

/** Each character in lower case by itself. */
function lowerCase(text) {
  return [...text].map(character => character.toLowerCase()).join("");
}

/** A table of replacements, a trie of bytes: what replaces the longest, or the shortest, start of some bytes. */
function readCharsmap(base64) {
  const bytes = Uint8Array.from(atob(base64), c => c.charCodeAt(0));
  if (!bytes.length) return () => null;
  const view = new DataView(bytes.buffer);
  const size = view.getUint32(0, true);
  const unit = i => (4 * i < size ? view.getUint32(4 + 4 * i, true) : 0);
  const childrenOf = unit => ((unit >>> 10) << ((unit & 512) >>> 6)) >>> 0;
  const textAt = from => textOfBytes(bytes.subarray(from, bytes.indexOf(0, from)));
  return (text, shortest = false) => {
    let place = childrenOf(unit(0));
    let found = null;
    for (let i = 0; i < text.length; i++) {
      place ^= text[i];
      const next = unit(place);
      if ((next & 0x800000ff) >>> 0 !== text[i]) break;
      place ^= childrenOf(next);
      if (!((next >>> 8) & 1)) continue;
      found = { length: i + 1, text: textAt(4 + size + (unit(place) & 0x7fffffff)) };
      if (shortest) break;
    }
    return found;
  };
}

/** As in the library: a grapheme of up to 5 bytes is replaced by what stands for its start; of others, each character. */
function replaceGraphemes(text, { replacement }) {
  const encoder = new TextEncoder();
  const replaced = part => replacement(encoder.encode(part), true)?.text;
  const each = character => replaced(character) ?? character;
  const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" }).segment(text);
  return Array.from(graphemes, ({ segment }) => {
    const isShort = encoder.encode(segment).length < 6;
    return (isShort ? replaced(segment) : null) ?? [...segment].map(each).join("");
  }).join("");
}

/** SentencePiece's text: longest replacements first, one space between words, and ▁ for each and before the text. */
function sentencePieceNormal(text, { replacement, adds, removes }) {
  const bytes = new TextEncoder().encode(text);
  const parts = [];
  for (let at = 0; at < bytes.length;) {
    const size = bytesOfCharacter(bytes[at]);
    const found = replacement(bytes.subarray(at));
    parts.push(found ? found.text : textOfBytes(bytes.subarray(at, at + size)));
    at += found ? found.length : size;
  }
  if (removes) while (parts[0] === " ") parts.shift();
  if (!parts.length) return "";
  const spaced = parts.join("");
  const joined = removes ? spaced.replace(/ +/g, " ").replace(/^ | $/g, "") : spaced;
  const marked = joined.replaceAll(" ", "▁");
  return adds && (marked || !removes) ? `▁${marked}` : marked;
}

/** The steps of a tokenizer, with their patterns and tables, and its model with what it looks up. */
function readParts({ normalizer, pre_tokenizer, decoder, model }, ids) {
  const ready = step => ({
    ...step,
    pattern: step.pattern === undefined ? null : new RegExp(step.pattern, "gu"),
    replacement:
      step.precompiled_charsmap === undefined ? step.replacement : readCharsmap(step.precompiled_charsmap),
  });
  const pieces = new Map(Object.entries(model.pieces ?? {}));
  let longest = 1;
  let lowest = Infinity;
  for (const [piece, score] of pieces) {
    longest = Math.max(longest, [...piece].length);
    lowest = Math.min(lowest, score);
  }
  const round = model.precision === 32 ? Math.fround : x => x;
  const tables = {
    vocabulary: ids,
    pieces,
    penalty: round(lowest - 10),
    round,
    rankOf: ranksOf(model.merges ?? []),
  };
  return {
    normalizer: normalizer.map(ready),
    splitter: pre_tokenizer.map(ready),
    decoder: decoder.map(ready),
    model: { longest, ...model, ...tables },
  };
}

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
        t.rankOf,
      ),
    text: ([first = "", ...others]) => [first.replaceAll("▁", ""), ...others].join("").replaceAll("▁", " "),
  },
  "byte bpe": {
    words: text => (text && ` ${text}`).match(SPACED_RUN) ?? [],
    tokens: (word, t) => mergePairs(bytesAsCharacters(word), t.rankOf),
    text: tokens => charactersAsText(tokens.join("")).replace(/^ /, ""),
  },
  wordpiece: {
    words: text => {
      const words = text.normalize("NFC").match(/\P{White_Space}+/gu) ?? [];
      return words.flatMap(word => word.match(BETWEEN_PUNCTUATION));
    },
    tokens: (word, t) => longestPieces(word, t.ids, t.unknown),
    text: tokens => DECODERS.WordPiece(tokens, { prefix: "##", cleanup: true }).join(""),
  },
  char: {
    words: text => [...text],
    tokens: word => [word],
    text: tokens => tokens.join(""),
  },
  parts: {
    words: (text, { parts: { normalizer, splitter } }) => {
      const normal = normalizer.reduce((text, step) => NORMALIZERS[step.type](text, step), text);
      if (!normal) return [];
      return splitter.reduce((words, step) => SPLITTERS[step.type](words, step), [normal]);
    },
    tokens: (word, { parts: { model } }) => MODELS[model.type](word, model),
    text: (tokens, { parts: { decoder } }) =>
      decoder.reduce((tokens, step) => DECODERS[step.type](tokens, step), tokens).join(""),
  },
};

// ---------------------------------------------------------------- the tokenizer

/**
 * A tokenizer of a layout, a list of tokens by id, and merges or parts. `special` are the ids that `decode` skips;
 * `names` has the ids of special tokens by our names, such as that of <mask> for [MASK].
 */
export function createTokenizer(data) {
  const { layout, tokens, special, names = {}, unk_id, languageCodes = false, target } = data;
  if (!(layout in LAYOUTS)) {
    const known = Object.keys(LAYOUTS).join(", ");
    throw new Error(`A tokenizer of the layout ${layout} does not run in the page.\nThese do: ${known}.`);
  }
  const { words: wordsOf, tokens: split, text } = LAYOUTS[layout];
  const words = text => wordsOf(text, t);
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const parts = layout === "parts" ? readParts(data, ids) : null;
  const unknown = parts ? parts.model.unknown : tokens[unk_id];
  const t = { ids, parts, rankOf: ranksOf(data.merges ?? []), unknown };
  const unknownId = ids.get(unknown) ?? unk_id;
  const skipped = new Set(special);
  const idOf = token => names[token] ?? ids.get(token);

  /** The tokens of a word: the id of each, and the text that it stands for. */
  const wordTokens = word => {
    const pieces = split(word, t);
    const texts = textsOf(word, pieces, t);
    return pieces.map((piece, i) => ({
      id: t.ids.get(piece) ?? unknownId ?? refuse(piece, tokens),
      text: texts[i],
    }));
  };

  /** The tokens of a text; some of SentencePiece's start with the language of the translation, >>fr<<. */
  const textTokens = text => {
    const [code] = (languageCodes && /^>>.*?<</s.exec(text)) || [""];
    const first = code ? [{ id: ids.get(code) ?? unknownId, text: code }] : [];
    return [...first, ...words(text.slice(code.length)).flatMap(wordTokens)];
  };

  /** Ids and tokens of a text, what stands for each in the text (`pieces`), and which are `unknown`. */
  const encode = given => {
    const found = textTokens(given);
    const ids = found.map(({ id }) => id);
    const unknown = [...ids.keys()].filter(i => ids[i] === unk_id);
    return { ids, tokens: ids.map(id => tokens[id]), pieces: found.map(each => each.text), unknown };
  };
  return {
    layout,
    idOf,
    encode,

    /** The same of a target, for which some tokenizers have parts of their own. */
    encodeTarget: target ? createTokenizer({ ...data, ...target, target: null }).encode : encode,

    /** The tokens of a word by itself; one without tokens is unknown. */
    encodeWord: word => {
      const found = textTokens(word);
      return found.length ? found : [{ id: unk_id, text: word }];
    },

    /** The tokens of a text in parts, of which each second one is a special token: as if it were a word there. */
    encodeMarked: parts => {
      const special = mark => ({ id: idOf(mark), text: mark });
      const marks = parts.filter((_, i) => i % 2).map(special);
      const texts = parts.filter((_, i) => i % 2 === 0);
      if (!marks.length) return textTokens(texts[0]);
      if (layout === "parts" || layout === "char") {
        const { leftStrips = [], rightStrips = [] } = data;
        const between = i => {
          const end = leftStrips.includes(idOf(parts[i + 1]))
            ? parts[i].replace(/\p{White_Space}+$/u, "")
            : parts[i];
          return rightStrips.includes(idOf(parts[i - 1])) ? end.replace(/^\p{White_Space}+/u, "") : end;
        };
        return parts.flatMap((part, i) => (i % 2 ? [special(part)] : textTokens(between(i))));
      }
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

    decode: ids =>
      text(
        [...ids].filter(id => !skipped.has(id)).map(id => tokens[id]),
        t,
      ),
  };
}

/** What each piece of a word stands for: itself, or if it is unknown the word, or the character, that is not known. */
function textsOf(word, pieces, t) {
  const isUnknown = piece => piece === t.unknown || !t.ids.has(piece);
  if (pieces.length === 1) return [isUnknown(pieces[0]) ? word.replace(/^[▁ ]/, "") || word : pieces[0]];
  const characters = [...word];
  return pieces.map(piece => {
    const own = characters.splice(0, piece === t.unknown ? 1 : [...piece].length).join("");
    return isUnknown(piece) ? own : piece;
  });
}

function refuse(character, tokens) {
  const known = [...tokens].sort().join("");
  throw new Error(`The character ${JSON.stringify(character)} is not in the vocabulary.\nUse only: ${known}`);
}

/** The tokens of a text in which the `marks`, such as [MASK], are special tokens. */
export function markedTokens(tokenizer, text, marks) {
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
