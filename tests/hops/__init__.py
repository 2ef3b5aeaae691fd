"""Hops on which the doctor is tried: real servers, each as a value, and what is the matter with them."""
