"""Speed beside other libraries: run by `make bench`, not by the tests."""
