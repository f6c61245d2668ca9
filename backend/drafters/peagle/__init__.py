"""P-EAGLE: a block of tokens drafted in one pass, at places that hold a learned state instead of a drafted token."""
