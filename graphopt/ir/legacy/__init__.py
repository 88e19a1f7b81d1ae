"""The border to Paddle's saved operators: their types, slots and attributes against `pd` ops."""
