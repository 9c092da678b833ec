"""Is the answer right? Looks at the answer and the tool calls only, never at the thinking."""
