"""The private foundation of the front end: operators, arguments, parameters, sequences."""
