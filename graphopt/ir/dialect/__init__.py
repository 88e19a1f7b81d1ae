"""The `pd` dialect: types, attributes, operations, the text form, and facts about values."""
