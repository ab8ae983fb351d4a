"""Asking servers over HTTP, politely and without trusting them."""
