"""`python -m asyncjobs.cli` is `asyncjobs`, too."""

from asyncjobs.cli import main

if __name__ == "__main__":
    main()
