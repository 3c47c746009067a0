"""`rosa doctor`: is this robot fit for its first motion? `probes/` measure facts, `judges/` say what they mean."""
