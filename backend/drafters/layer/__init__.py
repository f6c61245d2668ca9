"""What drafters with a decoder layer of their own share: the layer, its cache, drafting with it, and its training.

Such a drafter reads pairs: the target's state at position i and the token at position i + 1 together say what stands at
i + 2. EAGLE, EAGLE-3 and MTP modules differ in which states they read and in how the two are joined, and nothing else.
"""
