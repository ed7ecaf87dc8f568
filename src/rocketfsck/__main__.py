"""`python -m rocketfsck` is the command `rocketfsck`."""

from rocketfsck.cli import main

if __name__ == "__main__":
    main()
