"""A comparison for people and machines: words and terminal table, HTML page, JSON document."""
