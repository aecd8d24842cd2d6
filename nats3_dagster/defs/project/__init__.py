"""The user's project: archives as a component, a function or declarations, and the platform's settings of them."""
