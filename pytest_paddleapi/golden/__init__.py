"""Results of one machine that another one compares with: their form, their names, and the places that keep them.

Imported by the case process and by pytest's side; no framework is imported here, and a store's own library only when a
store is opened.
"""
