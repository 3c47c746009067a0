"""`rosa dashboard`: a page that shows a fleet and takes decisions, in a process beside the gateway that it watches."""
