"""Sentences about men and women, children, parents and kings: what they wear, where they live, what they do.

A word's vector learns from such sentences that a king is to a man what a queen is to a woman.
"""

from __future__ import annotations

from .choices import OWNERS, BalancedSampler
from .grammar import NEGATION, STATEMENT, Sentence, after, clause, noun_phrase
from .lexicon import NOUNS

FAMILIES = {  # male, female
    "adult": ("man", "woman"),
    "child": ("boy", "girl"),
    "royal": ("king", "queen"),
    "young royal": ("prince", "princess"),
    "parent": ("father", "mother"),
    "relative": ("uncle", "aunt"),
    "sibling": ("brother", "sister"),
}
BELONGINGS = {
    "adult": "money car computer",
    "child": "toy ball",
    "royal": "crown money car computer",
    "young royal": "crown toy ball",
    "parent": "cake bread cheese",
    "relative": "letter phone flower",
    "sibling": "book bag key",
}
HOMES = {
    "adult": "hotel",
    "child": "school",
    "royal": "palace",
    "young royal": "palace",
    "parent": "kitchen",
    "relative": "garden",
    "sibling": "house",
}
CLOTHES = ("tie", "dress")  # his, hers


def portraying(draw: BalancedSampler) -> Sentence:
    """The queen wears her crown, la reine porte sa couronne. My aunt stayed in her garden, ma tante est
    restée dans son jardin."""
    role = draw(tuple(FAMILIES), "portrait")
    sex = draw("0 1", role)
    is_female = int(sex)
    name = FAMILIES[role][is_female]
    is_relative = NOUNS[name].kind == "family"
    subject = noun_phrase(draw(OWNERS if is_relative else "the the the a this", "portrait", role, sex), name)
    owner = ("his", "her")[is_female]
    home = after("in", noun_phrase(owner, HOMES[role]))
    mode = draw((STATEMENT, STATEMENT, NEGATION), "portrait", role)
    if draw.chance(3):
        verb = draw("live live stay work sleep", "portrait", role, sex)
        tense = "present" if verb == "live" else draw("present past", "portrait", verb)
        return clause(mode, tense, subject, verb, home)
    item = draw(f"{BELONGINGS[role]} clothes", role, sex)
    if item == "clothes":
        item = CLOTHES[is_female]
    verbs = "wear wear lose find see love" if item in ("crown", *CLOTHES) else "lose find see love look_for"
    verb = draw(verbs, "portrait", item, sex).replace("_", " ")
    tense = {"lose": "past", "love": "present"}.get(verb) or draw("present past", "portrait", verb)
    rest = [home] if verb in ("lose", "find", "see", "wear") and not draw.chance(4) else []
    return clause(mode, tense, subject, verb, noun_phrase(owner, item), *rest)
