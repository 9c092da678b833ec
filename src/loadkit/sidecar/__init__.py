"""The sidecar: a process on the server's host that writes down what the host, the kernel, the container and the server say.

It reads, stamps and records; what it means is decided later from the file (`loadkit.incidents`, the verdict). Only the guard
acts, and only when it is armed.
"""
