"""Documents and files of rules: constraints, default resources, VM sizes; `library` is the public door to them."""
