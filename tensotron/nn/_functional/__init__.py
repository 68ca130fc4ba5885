"""Functions of nn.functional written in Python, over operators."""
