"""Work that a person starts: the commands, each a function of parsed arguments. The room where computing meets
remembering.
"""
