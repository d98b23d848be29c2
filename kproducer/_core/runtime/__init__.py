"""What every part runs on: clock, threads, guarded logging, argument checks, forks and interpreter exit."""
