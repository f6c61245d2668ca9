"""Pages: what is laid out where, and which event calls which presenter. No computing."""
