"""Medusa heads: several small heads on the target's last hidden state, head k guesses the token k + 2 places on."""
