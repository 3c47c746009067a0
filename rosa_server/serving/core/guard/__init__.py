"""What a gateway defends itself with: what connections and pictures may take of it."""
