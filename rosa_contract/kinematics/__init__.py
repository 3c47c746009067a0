"""Where an arm's tool is and how it gets somewhere: adapters on the server need it, and robots."""
