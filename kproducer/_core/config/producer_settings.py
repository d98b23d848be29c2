"""The settings with their types, for type checkers and editors: producer_settings.pyi, which is generated.

At run time ``producer_config`` makes ``ProducerSettings`` of its table.
"""
