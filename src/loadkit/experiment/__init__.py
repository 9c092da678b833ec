"""A whole A/B: launches in an order drawn by coin, waits between them, the default configuration brought back and proved."""
