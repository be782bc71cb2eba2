"""``fxlens mcp``: questions about models, as tools of the Model Context Protocol.

Every answer is computed for its question, from the file as it is then: nothing is kept between two questions except a
worker with torch imported, and an index that is updated before it is used.
"""
