"""Tables and numbers for people: the one place that renders them, as text and as HTML."""
