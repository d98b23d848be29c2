"""Adapters: the interfaces of other Python clients' producers over kproducer's engine."""
