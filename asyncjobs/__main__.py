"""`python -m asyncjobs` is `asyncjobs`."""

from asyncjobs.cli import main

if __name__ == "__main__":
    main()
