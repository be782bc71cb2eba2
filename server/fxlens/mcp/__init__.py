"""``fxlens mcp``: what is known of models, as tools of the Model Context Protocol.

Every answer is computed for its question, from the file as it is then: nothing is kept between two questions but a
worker that has torch imported and an index that is told of every change before it is asked.
"""
