"""Passes that know no set of operators in particular."""
