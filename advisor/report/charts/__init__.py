"""The charts of the HTML report as Vega-Lite specifications: plain data, drawn in the reader's browser.

Colours are the page's CSS variables, so that one drawing serves light, dark and paper. One chart a file.
"""
