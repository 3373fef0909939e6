"""Mathematics as MathML, made when the site is built: browsers draw it without a script or a font."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes

from minigrad.graph.page import mathml

# after the name of a function, browsers leave no space
FUNCTION = re.compile(r"(<mi\b[^>]*>[a-z]{2,}</mi>)(?=<m(?:i|n|row|sub|sup|frac)\b)")


def inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(f'<span class="math">{typeset(node)}</span>')
    raise nodes.SkipNode


def block(translator: Any, node: nodes.math_block) -> None:
    formula = typeset(node).replace('display="inline"', 'display="block"', 1)
    translator.body.append(f'<div class="math">{formula}</div>')
    raise nodes.SkipNode


def typeset(node: Any) -> str:
    return FUNCTION.sub(r'\1<mspace width="0.17em"/>', mathml(node.astext()))


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
