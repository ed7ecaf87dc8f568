"""Report pages: what the command line adds to a page's document, and where the page goes."""
