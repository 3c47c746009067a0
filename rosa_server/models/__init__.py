"""One backend per file behind one interface (`backend.py`), imported only when named."""
