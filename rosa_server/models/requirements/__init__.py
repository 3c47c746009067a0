"""What backends need beside the server: what each is for, and one line where it is missing."""
