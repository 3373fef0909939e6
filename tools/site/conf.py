"""Sphinx's settings; `python -m tools.site` runs it."""

from tools.site.pages import FILES

project = "minigrad and minitransformer"
author = "the contributors"
html_title = "minigrad & minitransformer"
extensions = [
    "myst_nb",
    "sphinx_copybutton",
    "tools.site.mathml",
    "tools.site.sources",
    "tools.site.objects",
    "tools.site.accessibility",
]

myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]  # ```math, as Git hosts write it
myst_heading_anchors = 4
nb_execution_mode = "off"  # tools.site.lessons has executed them

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
pygments_style = "a11y-light"
pygments_dark_style = "a11y-dark"
html_theme_options = {"top_of_page_buttons": []}
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 90
