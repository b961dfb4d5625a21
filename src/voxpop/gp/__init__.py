"""Which arms a phase plays: greedy maximum-variance selection, for a hundred actions or a million."""
