"""The rule tables, one module a family; `verify.catalog` joins them."""
