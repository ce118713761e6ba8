"""Systems that the papers compare themselves with, repaired where print is not sound."""
