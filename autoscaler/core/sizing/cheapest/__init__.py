"""The strategy `cost`: the cheapest set of workers over several families, sizes, zones and price types."""
