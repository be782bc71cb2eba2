"""How forward is run on proxies: expressions that torch.fx rejects are answered or cut out, so that all problems are
found.

`subject` is the root that is diagnosed. A `search` decides which `run`s are needed; `questions`, `cuts` and the
`listener` take part in each, and `findings` collects. `eager_path` searches again if misleading answers hid code.
"""
