"""An autoregressive action model: pictures, prompt and arm state in, action tokens out."""
