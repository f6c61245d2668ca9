"""What the records of decoding say: speed, repetition. Functions of records and numbers; no model, no page."""
