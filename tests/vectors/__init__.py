"""Test vectors of the protocol, in `clients/vectors`: what any device must send or refuse, to the last digit."""
