"""The site: pages of the repository in an order for readers, pages made of the code, and an audit."""
