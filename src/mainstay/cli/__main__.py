"""``python -m mainstay.cli``."""

from mainstay.cli.entry import main

if __name__ == "__main__":
    main()
