"""The table of models as a web page, for reports and for the editor's panel: script and style, independent of the
host."""
