"""The HTTP face: status codes, JSON fields of the outside, and nothing about how work is done."""
