"""The `pd` dialect: types, attributes, operations, the text form and what is known of values."""
