"""How far an estimate can be off: the paper's width and the affine width."""
