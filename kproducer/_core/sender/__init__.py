"""Sender: drains batches into produce requests and completes them with the responses. I/O thread only."""
