"""A simulated vLLM 0.32: no GPU, honest about what it wrote and when, able to misbehave on request.

It imports nothing of scenarios, documents or checks: an answer is right because it was found in the prompt's text.
"""
