"""Which tree is the fastest here: measured cost against measured hits."""
