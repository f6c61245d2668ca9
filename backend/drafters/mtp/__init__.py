"""Multi-token prediction: decoder layers behind the target's last hidden state, one for each further token.

Three forms: sequential modules that each read the state before them and the next token (DeepSeek-V3, arXiv 2412.19437,
section 2.2), one such module used again and again (FastMTP, arXiv 2509.18362), and parallel heads that read the state
alone (Gloeckle et al., arXiv 2404.19737).
"""
