"""Producer ids, sequence numbers, transactions, and the coordinators that know about them."""
