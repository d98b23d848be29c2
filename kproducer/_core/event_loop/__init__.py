"""From threads into asyncio event loops: wake-ups, and the records whose outcome a loop awaits.

Below the accumulator, whose futures can be awaited. Only programs that use asyncio load it.
"""
