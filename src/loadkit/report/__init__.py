"""A run as people read it: terminal tables, Markdown, JUnit, one HTML page. Pure functions of a run and its summary."""
