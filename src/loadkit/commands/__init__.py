"""The subcommands of `loadkit`, one file each; heavy imports stay inside the functions."""
