"""`python -m regard` is `regard`."""

from regard.cli import main

if __name__ == "__main__":  # a process beside it, made anew, reads this file too
    main()
