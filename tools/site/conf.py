"""Sphinx's settings; `python -m tools.site` runs it."""

import re

from docutils import nodes

from minigrad.graph.page import mathml
from tools.site import api, sources
from tools.site.lessons import EXECUTED
from tools.site.pages import FILES
from tools.site.sources import linkcode_resolve  # noqa: F401

project = "minigrad and minitransformer"
author = "the contributors"
html_title = "minigrad & minitransformer"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.linkcode", "sphinx_copybutton"]

myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]  # ```math, as Git hosts write it
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(EXECUTED)
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 120  # for a cell

autodoc_member_order = "groupwise"
python_maximum_signature_line_length = 90
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
templates_path = ["templates"]
html_static_path = ["static"]
html_favicon = "static/favicon.svg"
html_extra_path = [str(FILES)]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_use_index = False
html_domain_indices = False
pygments_style = "a11y-light"
pygments_dark_style = "a11y-dark"
html_theme_options = {"top_of_page_buttons": []}

# after the name of a function, browsers leave no space
FUNCTION = re.compile(r"(<mi\b[^>]*>[a-z]{2,}</mi>)(?=<m(?:i|n|row|sub|sup|frac)\b)")
# what the theme and the writer of signatures leave out for readers who listen to a page
ROLES = {
    "body": ('<dl>\n<dd><em class="sig-param">', '<dl role="presentation">\n<dd><em class="sig-param">'),
    "furo_navigation_tree": ('role="heading"', 'role="heading" aria-level="2"'),
}


def math(tag, display):
    """A function that writes a formula as MathML: browsers draw it without a script or a font."""

    def write(translator, node):
        formula = FUNCTION.sub(r'\1<mspace width="0.17em"/>', mathml(node.astext()))
        formula = formula.replace('display="inline"', f'display="{display}"', 1)
        translator.body.append(f'<{tag} class="math">{formula}</{tag}>')
        raise nodes.SkipNode

    return write


def complete(app, page, template, context, doctree):
    for part, (old, new) in ROLES.items():
        context[part] = context.get(part, "").replace(old, new)


def setup(app):
    app.add_html_math_renderer("mathml", (math("span", "inline"), None), (math("div", "block"), None))
    app.connect("autodoc-process-docstring", api.docstring)
    app.connect("doctree-read", sources.link_files)
    app.connect("doctree-resolved", sources.link_names)
    app.connect("missing-reference", sources.type_of_signature)
    app.connect("html-collect-pages", sources.pages)
    app.connect("html-page-context", sources.share_contents, priority=400)  # before the theme uses them
    app.connect("html-page-context", complete, priority=600)  # after the theme
