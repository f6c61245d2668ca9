"""Published static trees by name, as lists of paths in Medusa's notation. Data only.

`medusa-63` is the sparse tree that the Medusa repository ships for Vicuna-7B (its `mc_sim_7b_63`): 63 drafted nodes,
depth 4.

`eagle-25` is the static tree of the first EAGLE (arXiv 2401.15077), as its repository ships it: 25 drafted nodes, depth
5. The published count of 26 has the root in it.

`blockwise` is the chain of blockwise parallel decoding (Stern et al., arXiv 1811.03115): one candidate a head, kept as
far as each equals the target's own choice; four heads behind the target's own.
"""

_MEDUSA_63 = (
    "0 00 1 01 2 000 10 02 3 03 4 04 20 05 001 5 06 6 07 010 11 7 08 002 30 09 8 9 100 020 12 003 40 21 004 005 0000 "
    "011 006 030 50 13 007 008 009 60 040 14 70 012 200 31 22 80 050 15 101 021 90 060 0001 16 070"
)
_EAGLE_25 = "0 1 2 3 00 01 02 10 11 20 21 30 000 001 002 010 011 020 021 100 0000 0001 0002 00000 00001"

PRESETS: dict[str, list[list[int]]] = {
    "medusa-63": [[int(rank) for rank in word] for word in _MEDUSA_63.split()],
    "eagle-25": [[int(rank) for rank in word] for word in _EAGLE_25.split()],
    "blockwise": [[0] * depth for depth in range(1, 5)],
}
