"""The site: `python -m tools.site` builds it from docs/, the lessons, and the sources that they link to."""
