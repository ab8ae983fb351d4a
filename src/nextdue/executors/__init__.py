"""What runs claims and reports how they ended; none of them knows a store."""
