"""The device for browsers and Node: its own tests, and those that set it beside the Python device."""
