"""The producer for asyncio, a layer above ``KafkaProducer``: what waits there suspends a task here."""
