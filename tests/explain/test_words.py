"""What the stages of the walk-through say is true of the model that they show, family by family."""
