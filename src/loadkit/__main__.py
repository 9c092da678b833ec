"""`python -m loadkit …` is `loadkit …`."""

from loadkit.cli import main

main()
