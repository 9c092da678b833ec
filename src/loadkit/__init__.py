"""loadkit: load generation for language-model servers, with figures that can be believed.

`import loadkit` never imports locust (it patches the process); the Locust front end is `loadkit.front`.
"""

__version__ = "0.1.0"
