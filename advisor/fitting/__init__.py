"""Development time only: fits what prediction reads, from the catalog's published measurements, by `make fit`."""
