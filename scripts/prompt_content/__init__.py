"""Hand-written material for the project's own prompt set. Knows no model, no tokenizer and no file format."""
