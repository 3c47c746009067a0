"""One prefix per observation, shared by experts and components; language decoded in slices across frames."""
