"""Files that the compiler copies into every package it generates. Nothing here imports the compiler."""
