"""The passes that can be previewed on a model: an entry each (``table``), and source that applies them (``source``).

Only what runs in the user's interpreter imports torch and fxlib, inside functions.
"""
