"""Mathematics as MathML, made when the site is built: browsers draw it without a script or a font."""

from __future__ import annotations

from typing import Any

from docutils import nodes

from minigrad.graph.page import mathml


def inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(f'<span class="math">{mathml(node.astext())}</span>')
    raise nodes.SkipNode


def block(translator: Any, node: nodes.math_block) -> None:
    formula = mathml(node.astext()).replace('display="inline"', 'display="block"', 1)
    translator.body.append(f'<div class="math" tabindex="0">{formula}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
