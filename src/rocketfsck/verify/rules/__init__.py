"""The rule tables, one module a family; `verify.rules.catalog` joins them."""
