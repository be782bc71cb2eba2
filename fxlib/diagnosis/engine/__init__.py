"""One diagnosis run: forward on proxies, questions answered so that it goes on, and what was seen on the way."""
