"""Trains on pairs of sixteen languages, numbers and code, and scores a perfect model of each.

A perfect model gives each reference back: what the tokenizer decodes from the reference's tokens. Its exact
match must be 1, with words and with byte-pair encoding, whatever the language writes between its words.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from minitransformer.tasks.metrics import translation_scores
from minitransformer.text.tokenizer import Tokenizer

from .commands import TRAIN, Report, full_or, run, spread

SENTENCES = {
    "English": """I don't know what "normal" means – do you?
        It's 5:30 p.m., and we've walked 3.14 miles.
        The well-known dog's owner (a lawyer) didn't reply…
        'Twas the night before Christmas; rock 'n' roll!
        Mr. O'Neill paid $1,299.99 for it, i.e. 20% more.""",
    "German": """Wie geht's? – Gut, danke, und dir?
        Er sagte: „Das ist schön“, und ging nach Hause.
        Am 3. Oktober kostet es 1.234,56 € (inkl. MwSt.).
        Die Straßenbahnhaltestelle liegt z. B. in Köln.
        Max’ Auto ist größer als Jürgens.""",
    "French": """Qu'est-ce que c'est ? C’est l’été !
        « Bonjour », dit-elle ; il n’a pas répondu…
        L'homme d'aujourd'hui s'appelle-t-il Noël ?
        Il coûte 1 234,56 € ; c’est 20 % de plus.
        Où est-ce ? Là-bas, près de l'œuvre d’art.""",
    "Spanish": """¿Qué hora es? ¡No lo sé!
        El perro —dijo ella— come « el coche ».
        ¿Cuántos años tienes? Tengo 3,5 años.
        «Buenos días», respondió el señor Núñez.
        Mañana, a las 10:30, iremos al café.""",
    "Italian": """L'amico dell'avvocato non c'è più.
        Perché no? È un po' tardi…
        «Buongiorno!», disse l’uomo.
        Quest'anno costa 1.234,56 € circa.
        Un'altra volta: città, virtù, caffè.""",
    "Portuguese": """Não sei o que é isso – e você?
        Dá-me o livro d'água, por favor!
        “Olá”, disse a avó; o avô não ouviu.
        São 10h30, e custa R$ 1.234,56.
        Amá-lo-ei até amanhã…""",
    "Polish": """Cześć! Jak się masz?
        „Zażółć gęślą jaźń” – powiedział Łukasz.
        To kosztuje 1 234,56 zł (z VAT-em).
        Chciałbym biało-czerwoną flagę, proszę.
        Gdzie jest źródło? Nie wiem…""",
    "Russian": """Привет! Как дела?
        «Ёжик в тумане» — хороший фильм.
        Кто-то сказал: „Нет“, — и ушёл…
        Это стоит 1 234,56 ₽ (т. е. дорого).
        Почему? Потому что так надо.""",
    "Greek": """Καλημέρα! Τι κάνεις;
        «Όχι», είπε ο Γιάννης· δεν ήρθε.
        Απ' το σπίτι μέχρι τ’ αυτοκίνητο.
        Κοστίζει 1.234,56 € περίπου…
        Πού είναι η θάλασσα; Δεν ξέρω.""",
    "Arabic": """مرحبا، كيف حالك؟
        قال: «لا أعرف»؛ ثم ذهب.
        هَذَا كِتَابٌ جَمِيلٌ جِدًّا.
        السعر ١٢٣٫٤ دينار (تقريبًا).
        أين البيت؟ هناك، قرب البحر…""",
    "Hindi": """नमस्ते! आप कैसे हैं?
        मुझे हिन्दी नहीं आती।
        उसने कहा, “मैं क्षत्रिय हूँ।”
        इसकी क़ीमत ₹1,23,456.78 है।
        क्या यह सच है? हाँ-हाँ, सच है…""",
    "Chinese": """你好！你叫什么名字？
        他说：“我不知道。”然后走了……
        这本书要 123.45 元（约合 17 美元）。
        《红楼梦》是一部小说，对吗？
        我用 Python 3.11 写代码。""",
    "Japanese": """こんにちは。お元気ですか？
        「はい」と彼は言った。でも、来なかった……
        コーヒーを２杯、それとケーキを1,200円分ください！
        がぎぐげご、ｶﾞｷﾞｸﾞ、東京タワー。
        Pythonで書きます。""",
    "Korean": """안녕하세요! 어떻게 지내세요?
        그는 “모르겠어요.”라고 말했다.
        이 책은 12,345원(약 9달러)입니다.
        서울-부산 간 기차는 10:30에 떠나요.
        왜요? 그냥요…""",
    "Thai": """สวัสดีครับ คุณชื่ออะไร?
        เขาพูดว่า "ไม่รู้" แล้วก็ไป
        ราคา 1,234.56 บาท (ประมาณ)
        น้ำตก ผู้หญิง ๆ สวยมาก
        วันนี้อากาศดีนะ!""",
    "Turkish": """Merhaba! Nasılsın?
        Türkiye'nin başkenti Ankara'dır.
        “Bilmiyorum,” dedi; İstanbul’a gitti…
        Fiyatı 1.234,56 ₺ (KDV dâhil).
        Iğdır'da ılık bir gün: iyi mi?""",
    "numbers": """3.14 -1.5e-10 +2 1,000,000 1 000
        0x1F 0b101 1_000 10% 20 % $5 5$
        192.168.0.1:8080 2026-11-22T13:45:00Z
        1/2 3:4 (5) [6] {7} <8> #9 @10 №11
        ½ ² ₃ π≈3.14159 5×4 6÷2 −7 ±8 90°""",
    "code": """x += y[0]; // C++ and C#
        if (a != b && !c) { return f(x, y)->z; }
        print(f"{name!r:>10}", end="")  # two  spaces
        https://example.org/a_b?c=d&e=%20#f user@example.org
        ~/bin/run.sh --flag=1 | grep -v '^$' > /dev/null 2>&1""",
    "marks": "a\u00a0b \u202f? c\u00a0! don’t don't\n"
    "👩\u200d👩\u200d👧 👍🏽 🇫🇷 ok 😀!\n"
    "cafe\u0301 café e\u0323\u0301 na\u0308ive\n"
    "“quoted” ‘single’ ‚low‘ „deep“ ‹angle›\n"
    "end  of   words ... !!! ?! -- — – _ ` ^ ~ \\ |",
}


def write_data(path: Path, sentences: list[str]) -> None:
    """Six pairs for each sentence, so that none is only in the held-out splits."""
    rows = [f"{n} {i}\t{sentence}\n" for n in range(6) for i, sentence in enumerate(sentences)]
    path.write_text("".join(rows), encoding="utf-8")


def attack(language: str, kind: str, report: Report) -> None:
    """Train on a language, and score the perfect model on the run's test split."""
    sentences = [line.strip(" ") for line in SENTENCES[language].split("\n")]
    with tempfile.TemporaryDirectory() as folder:
        cwd = Path(folder)
        write_data(cwd / "pairs.tsv", sentences)
        outcome = run([*TRAIN, "--tokenizer", kind, "--max-length", "128"], cwd)
        if outcome.code:
            report.add(kind, "not trained", f"{language}: {outcome.last_words}")
            return
        rows = (cwd / "run" / "predictions.txt").read_text(encoding="utf-8").split("\n")[1:-1]
        references = [row.split("\t")[1] for row in rows] + sentences
        tokenizer = Tokenizer.load(cwd / "run" / "tokenizer.json")
    perfect = [tokenizer.decode(tokenizer.encode(reference)) for reference in references]
    lost = [(a, b) for a, b in zip(references, perfect, strict=True) if a != b]
    exact = translation_scores(perfect, references)["exact_match"]
    failure = f"{language}: a perfect model scores {exact:.2%}, {lost[:1]}" if exact < 1 else ""
    report.add(kind, "perfect" if exact == 1 else "less than perfect", failure)


def main() -> int:
    cases = [(language, kind) for kind in ("word", "bpe") for language in SENTENCES]
    report = Report()
    for language, kind in spread(cases, full_or(small=2, full=len(cases))):
        attack(language, kind, report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
