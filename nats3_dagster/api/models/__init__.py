"""Models: requests and answers as the OpenAPI document has them."""
