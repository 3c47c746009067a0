"""One vision-language-action model for all components of a robot: it sees once, then acts and speaks."""
