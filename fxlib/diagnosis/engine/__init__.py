"""How forward is run on proxies: what torch.fx refuses is answered or left out, so that all problems are found.

`subject` is what is diagnosed. A `search` decides which `run`s are needed; `questions`, `cuts` and the `listener` take
part in each, and `findings` collects. `eager_path` searches again where misleading answers hid code.
"""
