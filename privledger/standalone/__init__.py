"""Files that work without the package. They import nothing of it, and nothing imports them."""
