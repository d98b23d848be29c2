"""What runs behind one ``KafkaProducer``: accumulator, sender, client and their I/O thread."""
