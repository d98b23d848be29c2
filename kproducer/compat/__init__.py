"""Producers with the interface of another client, on top of the producers here."""
