"""The simulated Panda in its workcell: scene, physics, pictures, and an expert that knows the truth."""
