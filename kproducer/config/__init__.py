"""The settings of a producer: their table, their types, and what to suggest for a misspelt one."""
