"""Files of pictures that anybody may have sent, looked at before a library sees them."""
