"""The settings of a producer: their table, their types, and the properties files that have them."""
