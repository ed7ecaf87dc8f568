"""A check in tasks: how it is cut, run and resumed, and what the tasks hand on."""
