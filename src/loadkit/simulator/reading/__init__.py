"""Reading as a model would: what a prompt asks for is found in the prompt's own text, by general rules of language and form.

Each reader looks at the conversation and returns a `Finding`, or `None` where the question is not of its kind.
"""
