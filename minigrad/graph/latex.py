"""Functions that typeset the LaTeX of an op's gradients."""

from __future__ import annotations

import re


def upright(formula: str, names: list[str]) -> str:
    """Set the words of a formula upright: functions (GitHub refuses \\operatorname) and arguments."""
    formula = re.sub(r"\\operatorname\{(\w+)\}", r"\\mathrm{\1}", formula)
    if not names:
        return formula
    words = "|".join(re.escape(name) for name in names)
    inside = r"\\(?:text|mathrm)\{[^}]*\}|\\[a-zA-Z]+"  # upright text, and commands
    upright_word = lambda found: (
        found[0] if found[1] is None else f"\\mathrm{{{found[1].replace('_', chr(92) + '_')}}}"
    )
    return re.sub(rf"{inside}|(?<![a-zA-Z])({words})(?![a-zA-Z])", upright_word, formula)


def bar(name: str) -> str:
    """Return the symbol of an argument's gradient: its name below a bar."""
    return (
        f"\\bar{{{name}}}"
        if len(name) == 1
        else f"\\overline{{\\mathrm{{{name.replace('_', chr(92) + '_')}}}}}"
    )
