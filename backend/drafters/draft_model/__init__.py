"""A separate, smaller causal language model with the same tokenizer as the target."""
