"""The best schedule of a small factory, with proof. Imported only when it is asked for."""
