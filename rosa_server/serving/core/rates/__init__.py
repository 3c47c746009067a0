"""When robots may call, and whether they keep to it. The page: docs/rates.md."""
