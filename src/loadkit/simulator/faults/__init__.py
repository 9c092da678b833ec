"""Faults that the simulator plays on request: `table` says what they are, `choice` who gets them, `outlet` plays them."""
