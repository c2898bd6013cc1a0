"""Indexes on servers, named by an address; the engine is imported when it is asked for."""
