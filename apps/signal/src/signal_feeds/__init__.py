"""Signal: a feed aggregator with a durable, polite schedule and an editorial queue, an application of nextdue."""
