"""How results are compared: tolerances, comparators by meaning, the text of a difference."""
