"""Hydra heads: like Medusa's, but each also reads the tokens drafted before it (arXiv 2402.05109)."""
