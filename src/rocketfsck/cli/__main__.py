"""`python -m rocketfsck.cli`."""

from rocketfsck.cli import main

main()
