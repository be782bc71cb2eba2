"""The graph as data: nodes, their arguments, order, names and printed form, whoever recorded them."""
