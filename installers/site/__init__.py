"""`make docs`: the site of the pages, its drawings and its generated reference."""
