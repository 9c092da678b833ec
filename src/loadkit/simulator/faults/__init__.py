"""Faults that the simulator plays on request: what they are (`table`), who gets them (`choice`), how they are played (`outlet`)."""
