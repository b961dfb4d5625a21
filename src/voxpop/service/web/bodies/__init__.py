"""The bodies of requests and replies, as pydantic models: requests are validated by them, replies only in tests."""
