"""What the public modules of kproducer are made of. Applications import none of it."""
