"""`python -m recshard`: the same program as `recshard`."""

from recshard.cli.app import main

if __name__ == "__main__":
    main()
