"""`python -m privledger`: the command line."""

from privledger.cli import main

if __name__ == "__main__":
    main()
